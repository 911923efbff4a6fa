"""Act: quarantine, filter and refill what a retrieval hands to the generator."""
