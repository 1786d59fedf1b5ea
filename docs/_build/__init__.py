"""What builds the documentation: the pages of the reference, the drawings, the notebooks.

    python -m docs._build              write the drawings and the badge, which are kept in the repository
    python -m docs._build notebooks    run the notebooks, and store what they show

`hooks` is what mkdocs calls; it makes the navigation and the pages of the reference while the site is built.
"""
