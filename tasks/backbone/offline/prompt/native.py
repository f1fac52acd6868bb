"""Reads the prompt layouts of open models (`conf/prompts/native_*.jinja`), which have other headings."""

import re

_ENGLISH = re.compile(
    r"\A(?>.*?^Database Schema:\n)(?>(?P<schema>.*?)\n\nQuestion:\n)(?P<asked>.*?)\n\nInstructions:\n",
    re.DOTALL | re.MULTILINE,
)
_CHINESE = re.compile(
    r"\A(?>.*?^【数据库schema】\n)(?>(?P<schema>.*?)\n\n(?=【参考信息】\n|【用户问题】\n))"
    r"(?>(?:【参考信息】\n(?P<evidence>.*?)\n\n)?【用户问题】\n)(?P<asked>.*?)\n\n```sql",
    re.DOTALL | re.MULTILINE,
)
_EXAMPLE = re.compile(r"((?:^|, |-- ))example: \[", re.MULTILINE)


def native_sections(text: str) -> dict[str, str]:
    """Return schema, evidence and question of a message in one of the layouts, by `Heading`; {} of any other.

    The English layouts have the evidence above the question, whose text is the last line.
    """
    if found := _CHINESE.search(text):
        evidence, question = found["evidence"] or "", found["asked"]
    elif found := _ENGLISH.search(text):
        evidence, _, question = found["asked"].rpartition("\n")
    else:
        return {}
    schema = _EXAMPLE.sub(r"\1Examples: [", found["schema"])
    return {"schema": schema, "evidence": evidence, "question": question}
