"""What the self-contained HTML pages share: template, drawing, SQL, text."""
