"""einsum: expressions of every form, especially repeated and summed-out labels, compared with real MLX."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tests.oracle import check

_TEXT = """
a,ab,abc->abc a,b,ab->ab ea,fb,gc,hd,abcd->efgh ea,fb,abcd,gc,hd->efgh abcd,ea,fb,gc,hd->efgh
acdf,jbje,gihb,hfac,gfac,gifabc,hfac cd,bdhe,aidb,hgca,gc,hgibcd,hgac abhe,hidj,jgba,hiab,gab
bde,cdh,agdb,hica,ibd,hgicd,hiac chd,bde,agbc,hiad,hgc,hgi,hiad chd,bde,agbc,hiad,bdi,cgh,agdb
bdhe,acad,hiab,agac,hibd ab,ab,c-> ab,ab,c->c ab,ab,cd,cd-> ab,ab,cd,cd->ac ab,ab,cd,cd->cd ab,ab,cd,cd,ef,ef->
ab,cd,ef->abcdef ab,cd,ef->acdf ab,cd,de->abcde ab,cd,de->be ab,bcd,cd->abcd ab,bcd,cd->abd eb,cb,fb->cef
dd,fb,be,cdb->cef bca,cdb,dbf,afc-> dcc,fce,ea,dbf->ab fdf,cdd,ccd,afe->ae abcd,ad ed,fcd,ff,bcf->be
baa,dcf,af,cde->be bd,db,eac->ace fff,fae,bef,def->abd efc,dbc,acf,fd->abe ab,ab ab,ba abc,abc abc,bac abc,cba
ab,bc ab,cb ba,bc ba,cb abcd,cd abcd,ab abcd,cdef abcd,cdef->feba abcd,efdc aab,bc->ac ab,bcc->ac aab,bcc->ac
baa,bcc->ac aab,ccb->ac a,ab,abc->a ab,bc,cd->ad abc,cd,bd,ea->ed ba,ac,da->bcd cda,bc,a->db a,a-> a,a->a a,b
aa-> aa->a abb->a abb->ba aba->b aabb->ab aaa->a aaa,ab->b ii,i->i ijk-> ij,ij->j ij,ij->i ijk,ilm,njm,nlk,abc->
ab,bc,ca-> ab,bc,ca->abc a,a,a,a-> a,a,a,a->a abc,bca,cab-> aab,abb->ab abab->ab abba->ab abcabc->abc ij->j
ij,jk,kl,lm->im bab,abc->ac bb,ff,be->e bcb,bb,fc,fff-> fbb,dfd,fc,fc-> afd,ba,cc,dc->bf adb,bc,fa,cfc->d
bbd,bda,fc,db->acf dba,ead,cad->bce aef,fbc,dca->bde aab,fa,df,ecc->bde ecb,fef,bad,ed->ac bcf,bbb,fbf,fc->
fbb,dba,cb,df-> cc,dbc,dd,bd-> ab,bc,cd,de,ef->af ab,ac,ad,ae->abcde abc,ad,be,cf->def i,j,k,l->ijkl ijk,jk->i
ijk,ik->jk ijk,k ...a,...ab->...b ...ab,...bc->...ac a...,a...->... ...aa->...a ...,... i...->... ...i,...i->...
ab...,bc...->ac... ...ab,cb->...ac b...,b...-> ebc,...ab->...ac a...a->a... ijij-> iijj->ij
"""
EXPRESSIONS = _TEXT.split()


def operands(expression: str, sizes: dict[str, int]) -> list[np.ndarray]:
    """Return small integers, whose sums of products are exact."""
    rng = np.random.default_rng(0)
    terms = expression.split("->")[0].replace("...", "YZ").split(",")
    return [rng.integers(-2, 3, [sizes[c] for c in t]).astype(np.float32) for t in terms]


def sizes_of(seed: int, choices: tuple[int, ...]) -> dict[str, int]:
    draw = random.Random(seed)
    return {c: draw.choice(choices) for c in "abcdefghijklmnopqrst"} | {"Y": 2, "Z": 3}


CASES = [(sizes_of(0, (2, 3, 4, 5)), e) for e in EXPRESSIONS] + [(sizes_of(2, (1, 2)), e) for e in EXPRESSIONS]


@pytest.mark.parametrize(("sizes", "expression"), CASES, ids=[f"{k}-{e}" for k, (_, e) in enumerate(CASES)])
def test_expression(sizes: dict[str, int], expression: str) -> None:
    """Compare values of floats and integers, the order of the contractions, and the gradients."""
    arrays = operands(expression, sizes)
    check(lambda mx, *xs: mx.einsum(expression, *xs), *arrays)
    check(lambda mx, *xs: mx.einsum(expression, *[x.astype(mx.int8) for x in xs]), *arrays)
    check(lambda mx, *xs: mx.einsum_path(expression, *xs), *arrays)
    places = list(range(len(arrays)))
    check(lambda mx, *xs: mx.grad(lambda *xs: mx.einsum(expression, *xs).sum(), places)(*xs), *arrays)


@pytest.mark.usefixtures("xla_only")
@pytest.mark.parametrize("expression", [e for e in EXPRESSIONS if e.count(",") > 1])
def test_compiled(expression: str) -> None:
    arrays = operands(expression, sizes_of(0, (2, 3, 4)))
    check(lambda mx, *xs: mx.einsum(expression, *xs), *arrays)
    check(lambda mx, *xs: mx.einsum(expression, *[x.astype(mx.int16) for x in xs]), *arrays)


def test_what_the_search_gives_up_on(xla_only) -> None:
    """Assert that labels which only the first of several operands has are summed as well."""
    shapes = ((2, 3, 4), (4, 5), (3, 5), (3, 2))
    arrays = [np.arange(np.prod(s), dtype=np.float32).reshape(s) % 5 for s in shapes]
    check(lambda mx, *xs: mx.einsum("abc,cd,bd,ea->ed", *xs), *arrays)


def test_order_counts_every_axis_of_a_diagonal() -> None:
    sizes = {"a": 3, "b": 2, "d": 2, "e": 5, "f": 5}
    check(lambda mx, *xs: mx.einsum_path("fff,fae,bef,def->abd", *xs), *operands("fff,fae,bef,def->abd", sizes))


@pytest.mark.parametrize(
    "expression",
    ["ij;jk->ik", "i1", "->i,j", "i......", ";......", "...1...", "i...j...,j", "i,j;", ",->,", "i,...->-"],
)
def test_the_first_mistake_is_named(expression: str) -> None:
    """Assert that the first mistake is named: the number of terms first, then each term from the left."""
    for count in (1, 2):
        check(lambda mx, count=count: mx.einsum(expression, *[mx.ones((2, 2))] * count))
        check(lambda mx, count=count: mx.einsum_path(expression, *[mx.ones((2, 2))] * count))
