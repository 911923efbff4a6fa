"""Three rings around a retrieval: what enters the index, what is retrieved, what is answered."""
