"""`reqnn view`: a cloud that you rotate in the browser, and what networks say about it."""
