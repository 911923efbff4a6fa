"""Read and write the files of the published artifact's layout."""
