"""Jobs that outlive a process: fixed shards of a file, a journal beside the output, and who works on them."""
