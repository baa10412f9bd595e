"""Pages of results: a front page, a page for each question, and the full tables of each experiment."""
