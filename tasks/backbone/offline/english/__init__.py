"""English words: tokens, stems, synonyms and closed word lists."""
