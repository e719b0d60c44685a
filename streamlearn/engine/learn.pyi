FIELDS: dict[str, tuple[str, ...]]
