"""The build of the documentation: the pages of the reference, the drawings, the notebooks.

    python -m docs._build              write the drawings and the badge, which are kept in the repository
    python -m docs._build notebooks    run the notebooks, and store what they show

mkdocs calls `hooks`, which makes the navigation and the pages of the reference.
"""
