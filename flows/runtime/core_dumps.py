"""Core dumps, which would hold the key of a model's endpoint and everything that was asked."""


def forbid_core_dumps() -> None:
    """Let no crash of this process, or of one that it starts from now on, write its memory to a file.

    Only the soft limit becomes 0, which a program that is started may raise again. Where there is no `resource`
    (Windows) there are no core dumps.
    """
    try:
        import resource
    except ImportError:
        return
    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, hard))
