from sglfab.testing.fixtures import free_port, standin_host

__all__ = ["free_port", "standin_host"]
