"""The cases of `mlx.core`: its functions, the methods and operators of `array`."""

from __future__ import annotations

from mxcompat._ops.define import SAMPLES
from tests.sweep.cases import Case, Given, table

__all__ = ["cases"]

HALF_AND_SINGLE = ("float16", "bfloat16", "float32")

REDUCTIONS = """
mx.{{sum,mean,prod,max,min,var,std,logsumexp,all,any,median}}(x) | 2,3,4
mx.{{sum,mean,prod,max,min,var,std,logsumexp,all,any,median,minmax}}(x, axis=1) | 2,3,4
mx.{{sum,mean,prod,max,min,var,std,logsumexp,all,any,median,count_nonzero}}(x, axis=-1, keepdims=True) | 2,3,4
mx.{{sum,mean,prod,max,min,var,std,logsumexp,all,any,median}}(x, axis=(0, 2)) | 2,3,4
mx.{{sum,mean,prod,max,min,var,std,logsumexp,all,any}}(x, axis=()) | 2,3
mx.{{sum,mean,prod,var,std,logsumexp,all,any,max,min}}(x) | 0
mx.{{sum,mean,prod,max,min,var,std,logsumexp,all,any,argmax}}(x) | ()
! mx.{{sum,mean,prod,max,min,var,std,logsumexp,all,any,median,argmax,argmin}}(x, axis=3) | 2,3,4
! mx.{{sum,mean,prod,max,min,var,std,logsumexp,all,any}}(x, axis=(0, 0)) | 2,3,4
! mx.{{max,min,argmax,argmin,median}}(x) | 0
mx.{{var,std}}(x, axis=0, ddof=1) | 3,4
mx.{{var,std}}(x, ddof=12) | 3,4
mx.minmax(x) | 2,3
mx.count_nonzero(x) | 2,3
mx.{{argmax,argmin}}(x) | 2,3
mx.{{argmax,argmin}}(x, axis=0) | 3,4
mx.{{argmax,argmin}}(x, axis=-1, keepdims=True) | 3,4
x.{{sum,mean,prod,max,min,var,std,logsumexp,all,any,argmax,argmin}}(axis=0) | 3,2
x.{{sum,mean,prod,max,min,var,std,logsumexp,all,any}}(axis=-1, keepdims=True) | 3,2
mx.{{cumsum,cumprod,cummax,cummin,logcumsumexp}}(x, axis=1) | 2,3,2
mx.{{cumsum,cumprod,cummax,cummin,logcumsumexp}}(x) | 2,3
mx.{{cumsum,cumprod,cummax,cummin,logcumsumexp}}(x, axis=0, reverse=True) | 4,2
mx.{{cumsum,cumprod,cummax,cummin,logcumsumexp}}(x, axis=-1, inclusive=False) | 2,4
mx.{{cumsum,cumprod,cummax,cummin,logcumsumexp}}(x, axis=-1, reverse=True, inclusive=False) | 2,4
! mx.{{cumsum,cumprod,cummax,cummin,logcumsumexp}}(x, axis=2) | 2,4
x.{{cumsum,cumprod,cummax,cummin,logcumsumexp}}(axis=0) | 3,2
mx.{{cumulative_sum,cumulative_prod}}(x, axis=0) | 3,2
mx.{{cumsum,cumprod}}(x, axis=0, dtype=mx.float32) | 3,2
mx.diff(x) | 2,4
mx.diff(x, n=2, axis=0) | 4,2
mx.softmax(x) | 2,3
mx.softmax(x, axis=0) | 3,2
mx.softmax(x, axis=-1, precise=True) | 2,3
mx.softmax(x, axis=(0, 1)) | 2,3
mx.{{sort,argsort}}(x) | 3,4
mx.{{sort,argsort}}(x, axis=0) | 3,4
mx.{{sort,argsort}}(x, axis=None) | 3,4
! mx.{{sort,argsort}}(x, axis=2) | 3,4
mx.topk(x, 2) | 3,4
mx.sort(mx.topk(x, 2, axis=0), axis=0) | 4,2
mx.sort(mx.partition(x, 2)[..., :2], axis=-1) | 3,4
mx.partition(x, 1, axis=0)[1] | 4,3
mx.take_along_axis(x, mx.argpartition(x, 2), axis=-1)[..., 2] | 3,5
! mx.{{topk,partition,argpartition}}(x, 7) | 3,4
mx.searchsorted(x, y) | 5~sorted 2,3
mx.searchsorted(x, y, side='right') | 5~sorted 2,3
! mx.unique(x, size=4) | 6
! mx.unique(x, size=4, return_index=True, return_inverse=True, return_counts=True, fill_value=0) | 6
"""

SHAPES = """
mx.reshape(x, (4, 3)) | 2,3,2
mx.reshape(x, (-1, 2)) | 2,3,2
mx.flatten(x) | 2,3,2
mx.flatten(x, 1, 2) | 2,3,2
mx.unflatten(x, 1, (2, -1)) | 3,4
mx.squeeze(x) | 1,3,1
mx.squeeze(x, 0) | 1,3,1
mx.squeeze(x, axis=(0, -1)) | 1,3,1
mx.expand_dims(x, 1) | 2,3
mx.expand_dims(x, axis=(0, -1)) | 2,3
mx.flip(x) | 2,3
mx.flip(x, axis=1) | 2,3
mx.flip(x, axis=(0, -1)) | 2,3
mx.unstack(x) | 2,3
mx.unstack(x, axis=1) | 2,3
mx.moveaxis(x, 0, 2) | 2,3,4
mx.swapaxes(x, 0, -1) | 2,3,4
mx.{{transpose,permute_dims}}(x) | 2,3,4
mx.{{transpose,permute_dims}}(x, (1, 0, 2)) | 2,3,4
mx.matrix_transpose(x) | 2,3,4
mx.split(x, 2) | 4,3
mx.split(x, [1, 3], axis=1) | 2,5
mx.broadcast_to(x, (4, 2, 3)) | 2,3
mx.broadcast_to(x, (2, 3)) | 2,1
mx.broadcast_arrays(x, y) | 2,1 3
mx.{{concatenate,concat}}([x, y]) | 2,3 1,3
mx.{{concatenate,concat}}([x, y], axis=1) | 2,3 2,1
mx.{{concatenate,concat}}([x, y], axis=None) | 2,3 2
mx.stack([x, y]) | 2,3 2,3
mx.stack([x, y], axis=-1) | 2,3 2,3
mx.meshgrid(x, y) | 2 3
mx.meshgrid(x, y, sparse=True, indexing='ij') | 2 3
mx.repeat(x, 2) | 2,3
mx.repeat(x, 3, axis=0) | 2,3
mx.tile(x, 2) | 2,3
mx.tile(x, (2, 1, 3)) | 2,3
mx.pad(x, 1) | 2,3
mx.pad(x, (1, 2), constant_values=1) | 2,3
mx.pad(x, [(0, 1), (2, 0)]) | 2,3
mx.pad(x, [(1, 1), (0, 2)], mode={{'edge','reflect','symmetric'}}) | 3,3
mx.pad(x, 1, constant_values=y) | 2,3 ()
mx.as_strided(x, (3, 2), (2, 1), 1) | 8
mx.as_strided(x, (2, 3, 2), (4, 1, 1), 0) | 8
mx.roll(x, 1) | 2,3
mx.roll(x, -2, 1) | 2,3
mx.roll(x, (1, 2), (0, 1)) | 2,3
mx.diagonal(x) | 3,4
mx.diagonal(x, 1, 1, 2) | 2,3,4
mx.diag(x) | 3
mx.diag(x, 1) | 3
mx.diag(x, -1) | 3,4
mx.trace(x) | 3,4
mx.trace(x, 1, 0, 2) | 2,3,4
mx.trace(x, dtype=mx.float32) | 3,3
mx.{{tril,triu}}(x) | 3,4
mx.{{tril,triu}}(x, k=-1) | 2,3,3
mx.{{tril,triu}}(x, k=1) | 2,3,3
mx.{{atleast_1d,atleast_2d,atleast_3d}}(x) | ()
mx.{{atleast_1d,atleast_2d,atleast_3d}}(x, y) | 3 2,3
mx.contiguous(x) | 2,3
mx.contiguous(mx.transpose(x), allow_col_major=True) | 2,3
mx.stop_gradient(x) | 2,3
mx.depends(x, y) | 2 3
mx.{{zeros_like,ones_like}}(x) | 2,3
mx.{{zeros_like,ones_like}}(x, mx.int8) | 2,3
mx.full_like(x, 3) | 2,3
mx.full_like(x, y) | 2,3 ()
mx.full((2, 3), x) | ()
mx.full((2, 3), x) | 3
mx.full((2, 3), x, dtype=mx.float32) | 3
! mx.empty_like(x).shape | 2,3
! mx.reshape(x, (5,)) | 2,3
! mx.reshape(x, (-1, -1)) | 2,3
! mx.flatten(x, 2, 1) | 2,3,2
! mx.unflatten(x, 0, (2, 2)) | 3,4
! mx.squeeze(x, 1) | 1,3,1
! mx.expand_dims(x, 4) | 2,3
! mx.expand_dims(x, (0, 0)) | 2,3
! mx.moveaxis(x, 0, 3) | 2,3,4
! mx.swapaxes(x, 0, 3) | 2,3,4
! mx.transpose(x, (0, 0, 1)) | 2,3,4
! mx.transpose(x, (0, 1)) | 2,3,4
! mx.matrix_transpose(x) | 3
! mx.split(x, 3) | 4,3
! mx.broadcast_to(x, (3, 2)) | 2,3
! mx.concatenate([x, y]) | 2,3 2
! mx.concatenate([x, y], axis=1) | 2,3 1,3
! mx.concatenate([])
! mx.stack([x, y]) | 2,3 3,2
! mx.stack([])
! mx.tile(x, (-1,)) | 2
! mx.pad(x, [(1, 1)]) | 2,3
! mx.pad(x, -1) | 2,3
! mx.roll(x, 1, 2) | 2,3
! mx.diagonal(x, 0, 1, 1) | 2,3
! mx.diag(x) | 2,3,4
! mx.tril(x) | 3
! mx.repeat(x, -1) | 3
! mx.repeat(x, 2, axis=1) | 3
! mx.meshgrid(x, y, indexing='no') | 2 3
! mx.broadcast_arrays(x, y) | 2 3
x.{{flatten,squeeze,transpose,diagonal,diag,reshape,conj}}() | 3,3
x.reshape(3, 2) | 2,3
x.reshape([-1]) | 2,3
x.flatten(0, 1) | 2,3,2
x.squeeze(1) | 2,1
x.transpose(1, 0) | 2,3
x.moveaxis(0, 1) | 2,3
x.swapaxes(0, 1) | 2,3
x.split(3, axis=1) | 2,3
x.T | 2,3
x.mT | 2,3,4
x.real | 2,3
x.imag | 2,3
x[1] | 3,2
x[:, 1:] | 3,4
x[..., ::-1] | 3,4
x[None, 1:3:2, -1] | 4,3
x[y] | 4,3 2:int32@0..3
x[y, 1:] | 4,3 2:uint8@0..3
x[1:, y] | 3,4 2,2:int64@0..3
x[y, z] | 4,3 2:int32@0..3 2:int32@0..2
x[::2, None, y] | 4,3 2:int32@0..2
x[True] | 2,3
! x[y] | 4,3 4:bool_
x.at[y].{{add,subtract,multiply,divide,maximum,minimum}}(z) | 4,3 2:int32@0..3 2,3@0.5..3
x.at[1:3].{{add,subtract,multiply,divide,maximum,minimum}}(y) | 4,3 2,3@0.5..3
mx.take(x, y, axis=0) | 4,3 2:int32@0..3
mx.take(x, y, axis=1) | 2,4,3 2,2:uint32@0..3
mx.take(x, y) | 4,3 2:int32@0..11
mx.take(x, 1, axis=0) | 4,3
mx.take(x, -1) | 4,3
mx.take_along_axis(x, y, axis=1) | 3,4 3,2:int32@0..3
mx.take_along_axis(x, y, axis=0) | 3,4 2,4:uint32@0..2
mx.take_along_axis(x, y, axis=None) | 3,4 5:int32@0..11
mx.put_along_axis(x, y, z, axis=1) | 3,4 3,1:int32@0..3 3,1
mx.put_along_axis(x, y, z, axis=None) | 3,4 1:int32@0..11 1
mx.slice(x, y, (0, 1), (2, 2)) | 4,5 2:int32@0..2
mx.slice_update(x, y, z, (0, 1)) | 4,5 2,2 2:int32@0..2
! mx.take(x, y, axis=2) | 4,3 2:int32@0..3
! mx.take_along_axis(x, y, axis=1) | 3,4 3:int32@0..2
! x[y] | 4,3 2:float32
! x[0, 0, 0] | 4,3
! mx.slice(x, y, (0,), (2, 2)) | 4,5 2:int32@0..2
"""

ARITHMETIC = """
x {{+,-,*,/,//,%,**,@,&,|,^,<<,>>,==,!=,<,<=,>,>=}} y | 3,3 3,3@1..3
x {{+,-,*,/,//,%,**,&,|,^,<<,>>,==,<}} {{2,True,2.5,1j}} | 2,3
{{2,True,2.5,1j}} {{+,-,*,/,//,%,**}} x | 2,3@1..3
inplace(x, '{{+=,-=,*=,/=,//=,%=,**=,&=,|=,^=,<<=,>>=}}', y) | 2,3 2,3@1..3
inplace(x, '@=', y) | 3,3 3,3
-x | 2,3
+x | 2,3
~x | 2,3
abs(x) | 2,3
x.{{abs,square,sqrt,rsqrt,reciprocal,exp,log,log2,log10,log1p,sin,cos,round}}() | 2,3@0.2..3
x.round(1) | 2,3
x.view(mx.uint8) | 2,4
mx.view(x, mx.{{int8,uint16,int32,float16,float32,int64,complex64,bool_}}) | 2,8
mx.astype(x, mx.{{bool_,uint8,uint16,uint32,uint64,int8,int16}}) | 2,3@0..3
mx.astype(x, mx.{{int32,int64,float16,bfloat16,float32,float64,complex64}}) | 2,3@0..3
x.astype(mx.{{bool_,uint8,uint16,uint32,uint64,int8,int16}}) | 2,3@0..3
x.astype(mx.{{int32,int64,float16,bfloat16,float32,float64,complex64}}) | 2,3@0..3
mx.clip(x, -1, 1) | 2,3
mx.clip(x, None, 2) | 2,3
mx.clip(x, y, None) | 2,3 3
mx.clip(x, y, z) | 2,3 3@-2..-1 2,3@1..2
mx.where(y, x, z) | 2,3 2,3:bool_ 3
mx.where(x, y, z) | 2,3 2,3 2,3
mx.where(x > 1, x, 0) | 2,3
mx.where(x > 1, 1.5, x) | 2,3
mx.nan_to_num(x) | 2,3
mx.nan_to_num(x, nan=1, posinf=2, neginf=3) | 2,3
mx.round(x, 1) | 2,3
mx.divmod(x, y) | 2,3 2,3@1..3
mx.{{isclose,allclose}}(x, y) | 2,3 2,3
mx.{{isclose,allclose}}(x, x, 1e-3, 1e-5, equal_nan=True) | 2,3
mx.array_equal(x, y) | 2,3 2,3
mx.array_equal(x, x) | 2,3
mx.array_equal(x, x, equal_nan=True) | 2,3
mx.{{conjugate,acos,acosh,asin,asinh,atan,atanh}}(x) | 2,3@0.1..0.9
mx.{{atan2,pow,bitwise_left_shift,bitwise_right_shift}}(x, y) | 2,3@1..3 2,3@1..3
! x + y | 2,3 2
! mx.add(x, [1, 2]) | 2,3
! mx.add(x, None) | 2,3
! mx.{{exp,sqrt,abs,negative,logical_not,floor,sign}}([1, 2])
! x // 0 | 3
! x % 2.5 | 3
! x.{{tolist,item,__copy__,__len__,__dlpack_device__,__bytes__}}() | 2,2
! x.item() | ()
! x.item() | 1,1
! int(x) | ()@0..3
! float(x) | ()
! complex(x) | ()
! bool(x) | ()
! range(3)[x] | ()@0..2
! [int(x), float(x), bool(x)] | 1@0..3
! {{int,float,bool,complex}}(x) | 2
! [len(x), list(x), [r for r in x]] | 2,2
! [x.size, x.ndim, x.itemsize, x.nbytes, x.shape, x.dtype] | 2,3
! repr(x) | 2,3@0..3
! str(x) | 2,3@0..3
! copy.copy(x) | 2,3
! copy.deepcopy(x) | 2,3
! pickle.loads(pickle.dumps(x)) | 2,3
! np.array(x) | 2,3
! np.asarray(x).sum() | 2,3
! x.__array__() | 2,3
! mx.asarray(x) | 2,3
! mx.asarray(x, dtype=mx.float32, copy=True) | 2,3
! mx.from_dlpack(np.arange(6.0, dtype=np.float32))
! hash(x) == id(x) | 2,3
! x.__array_namespace__().sum(x) | 2,3
! x == None | 2
! x != 'a' | 2
! x < None | 2
! x[...].__class__.__name__ | 2
"""

CREATION = """
! mx.{{zeros,ones}}((2, 3), D)
! mx.{{zeros,ones}}(3)
! mx.{{zeros,ones}}(())
! mx.{{zeros,ones,full}}((-1,), 1)
! mx.empty((2, 3), D).dtype
! mx.full((2, 3), 2.5, D)
! mx.full(3, True)
! mx.full(3, 2)
! mx.full(3, 1j)
! mx.eye(3, dtype=D)
! mx.eye(3, 4, 1, D)
! mx.eye(3, 2, -1)
! mx.eye(-1)
! mx.identity(3, D)
! mx.tri(3, dtype=D)
! mx.tri(3, 4, 1, D)
! mx.tri(3, 4, -1)
! mx.arange(5, dtype=D)
! mx.arange(1, 7, 2, D)
! mx.arange(3, -2, -1, D)
! mx.arange({{3,3.0,2.5,0,-1}})
! mx.arange(1, 2, 0.25)
! mx.arange(1.5, 4, 1)
! mx.arange(0, 5, 0)
! mx.arange(0, 5, -1)
! mx.arange(0, float('nan'))
! mx.arange(0, float('inf'))
! mx.arange(0, 1, 1, mx.bool_)
! mx.linspace(0, 1, 5, dtype=D)
! mx.linspace(0, 10, 4)
! mx.linspace(0, 10, 4, endpoint=False)
! mx.linspace(0, 10, {{0,1,-1}})
! mx.{{bartlett,hanning,hamming,blackman}}({{0,1,2,7}})
! mx.array([[1, 2], [3, 4]], D)
! mx.array([True, False], D)
! mx.array([1.5, -2.5, 0.0], D)
! mx.array(1, D)
! mx.array(x) | 2,3
! mx.array(x, mx.float32) | 2,3
! mx.array([x, x]) | 2
! mx.array((x, [1, 2])) | 2
! mx.array([1, 2]).astype(D)
! mx.array(1.5).view(mx.int32)
! mx.finfo(D)
! [mx.finfo(D).bits, mx.finfo(D).min, mx.finfo(D).max, mx.finfo(D).eps, mx.finfo(D).smallest_normal, mx.finfo(D).dtype]
! mx.iinfo(D)
! [mx.iinfo(D).min, mx.iinfo(D).max, mx.iinfo(D).dtype]
! [D.size, repr(D), str(D), D == mx.float32, hash(D) == hash(D)]
! [mx.issubdtype(D, getattr(mx, k)) for k in CATEGORIES]
! [mx.issubdtype(D, getattr(mx, k)) for k in DTYPES]
! [mx.can_cast(D, getattr(mx, k)) for k in DTYPES]
! [mx.isdtype(D, k) for k in ('bool', 'signed integer', 'unsigned integer', 'integral', 'real floating', 'numeric')]
! mx.isdtype(D, 'no such kind')
! mx.isdtype(D, (mx.float32, 'bool'))
! [mx.result_type(D, getattr(mx, k)) for k in DTYPES]
! mx.result_type(x, mx.int8) | 2
! mx.broadcast_shapes((2, 1), (3,))
! mx.broadcast_shapes((2, 1), (3, 3, 3))
! mx.broadcast_shapes((2,), (3,))
"""

PRODUCTS = """
mx.matmul(x, y) | 2,3 3,4
mx.matmul(x, y) | 2,2,3 3,4
mx.matmul(x, y) | 3 3,4
mx.matmul(x, y) | 2,3 3
mx.matmul(x, y) | 3 3
mx.addmm(x, y, z) | 2,4 2,3 3,4
mx.addmm(x, y, z, alpha=0.5, beta=2.0) | 4 2,3 3,4
mx.inner(x, y) | 2,3 4,3
mx.inner(x, y) | 3 3
mx.outer(x, y) | 2 3
mx.vecdot(x, y) | 2,3 2,3
mx.vecdot(x, y, axis=0) | 3,2 3,2
mx.kron(x, y) | 2,2 1,3
mx.tensordot(x, y) | 2,3,4 3,4,2
mx.tensordot(x, y, axes=1) | 2,3 3,4
mx.tensordot(x, y, axes=[[0], [1]]) | 3,2 4,3
mx.einsum('ij,jk->ik', x, y) | 2,3 3,4
mx.einsum('ii->i', x) | 3,3
mx.einsum('ij,ij->', x, y) | 2,3 2,3
mx.einsum('ij->ji', x) | 2,3
mx.einsum('bij,bjk,bk->bi', x, y, z) | 2,3,2 2,2,3 2,3
mx.einsum('...i,i->...', x, y) | 2,2,3 3
! mx.einsum_path('ij,jk,kl->il', x, y, z) | 2,3 3,4 4,2
! mx.einsum('ij,jk->ik', x) | 2,3
! mx.einsum('ij->iz', x) | 2,3
! mx.matmul(x, y) | 2,3 2,3
! mx.matmul(x, y) | () 3
! mx.inner(x, y) | 2 3
! mx.tensordot(x, y) | 2,3 3,4
! mx.addmm(x, y, z) | 3,4 2,3 3,4
! mx.vecdot(x, y) | 2 3
mx.gather_mm(x, y) | 2,2,3 2,3,4
mx.gather_mm(x, y, lhs_indices=z) | 3,2,3 2,3,4 2:uint32@0..2
mx.gather_mm(x, y, rhs_indices=z) | 2,2,3 3,3,4 2:uint32@0..2
mx.segmented_mm(x, y, z) | 4,6 6,3 2,2:uint32@0..6
mx.block_masked_mm(x, y, 32) | 32,32 32,32
mx.block_masked_mm(x, y, 32, mx.array([[True, False], [True, True]])) | 64,32 32,64
mx.convolve(x, y) | 5 3
mx.convolve(x, y, mode='same') | 5 3
mx.convolve(x, y, mode='valid') | 5 3
mx.conv1d(x, y) | 1,5,2 3,2,2
mx.conv1d(x, y, stride=2, padding=1, dilation=2) | 1,7,2 3,2,2
mx.conv1d(x, y, groups=2) | 1,5,4 2,2,2
mx.conv2d(x, y) | 1,4,4,2 3,2,2,2
mx.conv2d(x, y, stride=(2, 1), padding=(1, 0)) | 1,4,4,2 3,2,2,2
mx.conv2d(x, y, groups=2) | 1,4,4,2 2,2,2,1
mx.conv3d(x, y) | 1,3,3,3,2 2,2,2,2,2
mx.conv_transpose1d(x, y) | 1,4,2 3,2,2
mx.conv_transpose1d(x, y, stride=2, padding=1, output_padding=1) | 1,4,2 3,3,2
mx.conv_transpose2d(x, y) | 1,3,3,2 3,2,2,2
mx.conv_transpose2d(x, y, stride=2, padding=1) | 1,3,3,2 3,3,3,2
mx.conv_transpose3d(x, y) | 1,2,2,2,2 3,2,2,2,2
mx.conv_general(x, y, stride=2, padding=([1, 0], [0, 1]), kernel_dilation=1, input_dilation=2) | 1,4,4,2 3,2,2,2
mx.conv_general(x, y, flip=True) | 1,4,2 3,2,2
! mx.conv1d(x, y) | 1,5,2 3,2,3
! mx.conv2d(x, y) | 4,4,2 3,2,2,2
! mx.conv2d(x, y) | 1,2,2,2 3,4,4,2
mx.hadamard_transform(x) | 3,8
mx.hadamard_transform(x, scale=0.5) | 12
! mx.hadamard_transform(x) | 7
"""

LINALG = """
mx.linalg.norm(x) | 3,4
mx.linalg.norm(x, ord={{1,2,0,3.5,-1,float('inf'),-float('inf')}}, axis=1) | 3,4
mx.linalg.norm(x, ord={{'fro','nuc',1,-1,2,-2,float('inf'),-float('inf')}}) | 3,4
mx.linalg.norm(x, axis=(0, 2), keepdims=True) | 2,3,2
mx.linalg.norm(x, axis=0, keepdims=True) | 3,2
mx.matrix_norm(x) | 3,4
mx.linalg.{{inv,pinv,det,slogdet}}(x) | 3,3~regular
mx.linalg.{{inv,det}}(x) | 2,3,3~regular
mx.linalg.{{inv,tri_inv,cholesky_inv}}(x) | 3,3~lower
mx.linalg.cholesky(x) | 3,3~spd
mx.linalg.cholesky(x, upper=True) | 2,3,3~spd
mx.linalg.{{eigvalsh}}(x) | 3,3~spd
mx.linalg.eigh(x)[0] | 3,3~spd
mx.abs(mx.linalg.eigh(x)[1]) | 3,3~spd
mx.linalg.svd(x)[1] | 3,4
mx.linalg.svd(x, compute_uv=False) | 4,3
mx.linalg.solve(x, y) | 3,3~regular 3
mx.linalg.solve(x, y) | 2,3,3~regular 2,3,2
mx.linalg.solve_triangular(x, y) | 3,3~lower 3,2
mx.linalg.solve_triangular(mx.transpose(x), y, upper=True) | 3,3~lower 3,2
mx.linalg.cross(x, y) | 2,3 2,3
mx.linalg.cross(x, y, axis=0) | 3,2 3,2
mx.linalg.cross(x, y) | 2,2 2,2
mx.abs(mx.linalg.qr(x)[1]) | 4,3
mx.linalg.lu(x)[1:] | 3,3~regular
mx.linalg.lu_factor(x) | 3,3~regular
mx.sort(mx.real(mx.linalg.eigvals(x))) | 3,3~spd
mx.sort(mx.real(mx.linalg.eig(x)[0])) | 3,3~spd
! mx.linalg.{{inv,pinv,cholesky,qr,svd,eigh,eigvalsh,eigvals,eig,lu,lu_factor,det,slogdet,tri_inv,cholesky_inv}}(x) | 3
! mx.linalg.{{inv,cholesky,eigh,eigvalsh,eigvals,eig,lu_factor,det,slogdet,tri_inv,cholesky_inv}}(x) | 3,4
! mx.linalg.cross(x, y) | 4 4
! mx.linalg.norm(x, ord='no') | 3,4
! mx.linalg.norm(x, ord=2.5, axis=(0, 1)) | 3,4
! mx.linalg.solve(x, y) | 3,4 3
! mx.linalg.solve(x, y) | 3,3 4
"""

FFT = """
mx.fft.{{fft,ifft,rfft,irfft,fft2,ifft2,rfft2,irfft2,fftn,ifftn,rfftn,irfftn}}(x) | 3,4
mx.fft.{{fft,ifft,rfft,irfft}}(x, n=6, axis=0) | 4,3
mx.fft.{{fft,ifft,rfft,irfft}}(x, n=3) | 2,6
mx.fft.{{fft,ifft,rfft,irfft}}(x, norm={{'ortho','forward'}}) | 2,5
mx.fft.{{fft2,ifft2,rfft2,irfft2,fftn,ifftn,rfftn,irfftn}}(x, s=(2, 6), axes=(0, 1)) | 4,3,2
mx.fft.{{fft2,ifft2,rfft2,irfft2,fftn,ifftn,rfftn,irfftn}}(x, norm='ortho') | 2,4
mx.fft.{{fftshift,ifftshift}}(x) | 3,4
mx.fft.{{fftshift,ifftshift}}(x, axes=1) | 3,4
! mx.fft.{{fftfreq,rfftfreq}}({{1,4,7}})
! mx.fft.{{fftfreq,rfftfreq}}(6, 0.5)
! mx.fft.{{fftfreq,rfftfreq}}(0)
! mx.fft.{{fft,ifft,rfft,irfft}}(x, axis=2) | 3,4
! mx.fft.{{fft,ifft,rfft,irfft}}(x, n=0) | 3,4
! mx.fft.{{fft2,fftn,rfftn}}(x, axes=(0, 5)) | 3,4
! mx.fft.fft(x, norm='no') | 4
mx.fft.stft(x, 8, 4) | 32
mx.fft.stft(x, 8, window=mx.hanning(8), center=False) | 32
mx.fft.istft(mx.fft.stft(x, 8, 4), 8, 4) | 32
"""

RANDOM = """
! mx.random.seed({{0,7,-1}})
! mx.random.key({{0,5,2**33,-1}})
! mx.random.split(mx.random.key(3), {{1,2,5}})
! mx.random.{{normal,uniform,gumbel,laplace}}(shape=(2, 3), dtype=D)
! mx.random.uniform(-1, 2, (2, 3), D)
! mx.random.{{normal,laplace}}((2, 3), D, loc=1.5, scale=2.0)
! mx.random.{{normal,uniform,gumbel,laplace}}()
! mx.random.truncated_normal(-1, 2, (2, 3), D)
! mx.random.randint(-3, 9, (2, 3), D)
! mx.random.randint(0, 4)
! mx.random.bernoulli()
! mx.random.bernoulli(0.3, (2, 3))
mx.random.bernoulli(x) | 2,3@0..1
mx.random.uniform(x, y, (2, 3)) | 3@0..1 3@2..3
mx.random.normal((2, 3), loc=x, scale=y) | 3 3@0.5..1
mx.random.truncated_normal(x, y) | 3@-2..-1 3@1..2
mx.random.randint(x, y, (2, 3)) | 3@0..1 3@5..9
mx.random.categorical(x) | 2,3
mx.random.categorical(x, axis=0) | 3,2
mx.random.categorical(x, num_samples=4) | 2,3
mx.random.categorical(x, shape=(4, 2)) | 2,3
mx.random.permutation(x) | 5
mx.random.permutation(x, axis=1) | 2,4
! mx.random.permutation(6)
mx.random.multivariate_normal(x, y) | 3 3,3~spd
! mx.random.uniform(0, 1, (2,), key=mx.random.key(5))
! mx.random.categorical(x, shape=(4, 3)) | 2,3
! mx.random.{{normal,uniform,gumbel,laplace}}((-1,))
! mx.random.randint(0, 4, (2,), mx.float32)
"""

FAST = """
mx.fast.rms_norm(x, y, 1e-5) | 2,8 8
mx.fast.rms_norm(x, None, 1e-5) | 2,8
mx.fast.layer_norm(x, y, z, 1e-5) | 2,8 8 8
mx.fast.layer_norm(x, None, None, 1e-5) | 2,8
mx.fast.layer_norm(x, y, None, 1e-5) | 2,8 8
mx.fast.cross_entropy(x, y) | 3,4 3:int32@0..3
mx.fast.rope(x, 4, traditional=False, base=100.0, scale=1.0, offset=2) | 1,2,3,4
mx.fast.rope(x, 4, traditional=True, base=100.0, scale=0.5, offset=0) | 1,2,3,6
mx.fast.rope(x, 4, traditional=False, base=None, scale=1.0, offset=1, freqs=mx.array([1.0, 0.1])) | 1,2,3,4
mx.fast.scaled_dot_product_attention(x, y, z, scale=0.5) | 1,2,3,4 1,2,5,4 1,2,5,4
mx.fast.scaled_dot_product_attention(x, y, z, scale=0.5, mask='causal') | 1,2,3,4 1,1,5,4 1,1,5,4
mx.fast.scaled_dot_product_attention(x, x, x, scale=0.5, mask=y) | 1,2,3,4 3,3:bool_
mx.fast.scaled_dot_product_attention(x, x, x, scale=0.5, mask=y) | 1,2,3,4 3,3
mx.fast.scaled_dot_product_attention(x, x, x, scale=0.5, sinks=y) | 1,2,3,4 2
! mx.fast.rms_norm(x, y, 1e-5) | 2,8 7
! mx.fast.layer_norm(x, y, z, 1e-5) | 2,8 8 7
! mx.fast.rope(x, 4, traditional=False, base=None, scale=1.0, offset=2) | 1,2,3,4
! mx.fast.rope(x, 4, traditional=False, base=1.0, scale=1.0, offset=2) | 4
! mx.fast.scaled_dot_product_attention(x, y, z, scale=0.5) | 1,2,3,4 1,2,5,4 1,2,4,4
! mx.fast.scaled_dot_product_attention(x, y, z, scale=0.5) | 1,3,3,4 1,2,5,4 1,2,5,4
! mx.fast.scaled_dot_product_attention(x, x, x, scale=0.5, mask='no') | 1,2,3,4
mx.fast.gated_delta_update(x, x, y, mx.sigmoid(x[..., 0]), mx.sigmoid(y[..., 0]))[0] | 1,3,2,4 1,3,2,4
"""

QUANTIZED = """
mx.quantize(x) | 2,64
mx.quantize(x, 32, 8) | 2,64
mx.quantize(x, mode={{'mxfp4','mxfp8','nvfp4'}}) | 2,64
mx.dequantize(*mx.quantize(x)) | 2,64
mx.quantized_matmul(x, *mx.quantize(y)) | 2,64 8,64
mx.quantized_matmul(x, *mx.quantize(y), transpose=False) | 2,8 8,64
mx.gather_qmm(x, *mx.quantize(y), rhs_indices=z) | 2,1,64 3,8,64 2:uint32@0..2
mx.qqmm(x, y) | 1,64 8,64
mx.to_fp8(x) | 2,4
mx.from_fp8(mx.to_fp8(x)) | 2,4
mx.from_fp8(mx.to_fp8(x), mx.float32) | 2,4
! mx.quantize(x, 48) | 2,96
! mx.quantize(x, 64, 9) | 2,64
! mx.quantize(x) | 2,60
! mx.quantize(x) | 64
! mx.quantize(x, mode='no') | 2,64
! mx.quantized_matmul(x, *mx.quantize(y)) | 2,32 8,64
"""

NOT_SWEPT = {
    **dict.fromkeys(
        (
            "default_device", "set_default_device", "is_available", "device_count", "device_info", "default_stream",
            "set_default_stream", "new_stream", "new_thread_unsafe_stream", "new_thread_local_stream", "clear_streams",
            "stream", "synchronize", "cuda.is_available", "metal.is_available", "metal.device_info", "Device.__init__",
             "Device.__repr__", "Device.__eq__", "DeviceType.__eq__",  "Stream.__repr__",
            "Stream.__eq__",  "ThreadLocalStream.__repr__", "ThreadLocalStream.__eq__",
            "StreamContext.__init__", "StreamContext.__enter__", "StreamContext.__exit__",
        ),
        "devices have no data: tests/test_devices.py, tests/test_streams.py",
    ),
    **dict.fromkeys(
        (
            "get_active_memory", "get_array_buffer_size", "get_peak_memory", "reset_peak_memory", "get_cache_memory",
            "set_memory_limit", "get_memory_limit", "set_cache_limit", "set_wired_limit", "clear_cache",
            "metal.get_active_memory", "metal.get_peak_memory", "metal.reset_peak_memory", "metal.get_cache_memory",
            "metal.set_memory_limit", "metal.set_cache_limit", "metal.set_wired_limit", "metal.clear_cache",
            "metal.start_capture", "metal.stop_capture",
        ),
        "what the machine has, not what is computed: tests/test_devices.py",
    ),
    **dict.fromkeys(
        (
            "eval", "async_eval", "jvp", "vjp", "value_and_grad", "grad", "vmap", "compile", "disable_compile",
            "enable_compile", "checkpoint", "custom_function.__init__", "custom_function.__call__",
            "custom_function.vjp", "custom_function.jvp", "custom_function.vmap",
        ),
        "the ways in which everything else is run; their own arguments: tests/test_autodiff.py, test_vmap.py, "
        "test_compile.py, test_custom.py",
    ),
    **dict.fromkeys(
        (
            "export_function", "import_function", "exporter", "export_to_dot", "FunctionExporter.close",
            "FunctionExporter.__enter__", "FunctionExporter.__exit__", "FunctionExporter.__call__",
        ),
        "write files of a format of their own: tests/test_export.py",
    ),
    **dict.fromkeys(
        (
            "distributed.is_available", "distributed.init", "distributed.all_sum", "distributed.all_max",
            "distributed.all_min", "distributed.all_gather", "distributed.send", "distributed.recv",
            "distributed.recv_like", "distributed.sum_scatter", "distributed.Group.rank", "distributed.Group.size",
            "distributed.Group.split",
        ),
        "tests/test_distributed.py and tests/distributed",
    ),
    **dict.fromkeys(
        ("fast.metal_kernel", "fast.cuda_kernel", "fast.precompiled_cuda_kernel"), "raise: no Metal, no CUDA compiler"
    ),
    **dict.fromkeys(
        (
            "set_printoptions", "get_printoptions", "printoptions", "PrintOptions.__init__",
            "_PrintOptionsContext.__init__", "_PrintOptionsContext.__enter__", "_PrintOptionsContext.__exit__",
        ),
        "a setting of the process: tests/test_printing.py",
    ),
    **dict.fromkeys(
        (
            "ArrayLike.__init__", "ArrayIterator.__next__", "ArrayIterator.__iter__", "array.__dlpack__",
            "array.__init__", "array.__index__",
            "array.__deepcopy__", "Dtype.__eq__", "Dtype.__hash__", "Dtype.__repr__", "finfo.__init__",
            "finfo.__repr__", "iinfo.__init__", "iinfo.__repr__", "array.__div__", "array.__rdiv__",
            "array.__getstate__", "array.__setstate__",
        ),
        "swept under another spelling: by calls of the class, of `iter`, `bool`, `repr`, `==`, by item assignment",
    ),
    "random.__getattr__": "module machinery",
    "gather_qqmm": "real MLX has it for GPUs only: tests/test_quantized.py",
}  # fmt: skip
"""Public callables without a case, with the reasons."""


def elementwise() -> list[Case]:
    """Return a case for every elementwise op of the table, in its own domain, plain and broadcast."""
    cases = []
    for name, sample in SAMPLES.items():
        first = Given((2, 3), low=sample.low, high=sample.high)
        low, high = sample.second or (sample.low, sample.high)
        if sample.operands == 1:
            cases.append(Case(f"mx.{name}(x)", (first,), elementwise=True, family="elementwise"))
            continue
        for shape in ((2, 3), (3,), (2, 1), ()):
            operands = (first, Given(shape, low=low, high=high))
            cases.append(Case(f"mx.{name}(x, y)", operands, elementwise=shape == (2, 3), family="elementwise"))
    return cases


def cases() -> list[Case]:
    """Return all cases of this file."""
    tables = {
        "reductions": REDUCTIONS, "shapes": SHAPES, "arithmetic": ARITHMETIC, "creation": CREATION,
        "products": PRODUCTS, "linalg": LINALG, "fft": FFT, "random": RANDOM, "fast": FAST, "quantized": QUANTIZED,
    }  # fmt: skip
    all_cases = elementwise()
    for family, text in tables.items():
        all_cases += [_of_all_dtypes(case) for case in table(text, family)]
    return all_cases


def _of_all_dtypes(case: Case) -> Case:
    """Return the case, limited to one run if it has neither arrays nor `D`, as all dtypes are equal then."""
    if (
        case.plain_only
        and not any(not g.dtype for g in case.operands)
        and " D" not in case.expression.replace("(D", " D")
    ):
        return Case(case.expression, case.operands, True, False, ("float32",), case.family)
    return case
