"""What the self-contained HTML pages share: template, plots, SQL, wording."""
