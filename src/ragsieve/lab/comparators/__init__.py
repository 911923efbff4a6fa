"""Other people's defences, behind the interfaces of RSQ and RSG."""
