"""What is remembered about documents and their corpus, so that later ones can be judged."""
