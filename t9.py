import sys; sys.path.insert(0,"/tmp/testA")
from L import *
work("t9")
from math import pi
f=20.;V=1500.
def fld(cells,T,tend,ramp=4,cfl=None,r=12,n=400,ppf=25):
    h=V/f/cells; t=np.arange(0,tend,1/f/ppf); rr=np.clip(t*f/ramp,0,1); s=(.5-.5*np.cos(pi*rr))*np.sin(2*pi*f*t)
    w("w.h5",np.c_[t,s])
    for p in glob.glob("o.*"): os.unlink(p)
    i0=n//3
    rc,o,e=st({"grid.nx":1,"grid.ny":1,"grid.nz":n,"grid.dz":h,"time.end_time":T,"equation.type":"wave","medium.velocity":V,"boundary.all":"absorbing","source.1.position":f"0 0 {i0*h!r}","source.1.wavelet":"w.h5:/w","sources.strength":"volume","receivers.points":f"0 0 {(i0+r)*h!r}","output.every":1})
    if rc: print(e); return
    U=[];Tt=[]
    for p in sorted(glob.glob("o.0*.hdf")):
        with h5py.File(p) as F: U.append(F["u"][...].astype(float).ravel()); Tt.append(float(np.ravel(F["time"][...])[0]))
    U=np.array(U);Tt=np.array(Tt);dt=Tt[1]; a=V/2/(2*pi*f); psi=2*np.arcsin(pi*f*dt); n_=np.arange(len(Tt))
    u=U[:,i0+r]/a; uu,tt=tr(); uu=uu[:,0]/a
    for lo,hi in ((.3,.45),(.4,.55),(.5,.65),(.6,.75)):
        if hi>T: continue
        m=(Tt>=lo)&(Tt<hi); A=np.c_[np.cos(psi*n_[m]),np.sin(psi*n_[m]),np.ones(m.sum())]; c=np.linalg.lstsq(A,u[m],rcond=None)[0]
        w0=2*pi*f; B=np.c_[np.cos(w0*tt[m]),np.sin(w0*tt[m]),np.ones(m.sum())]; d=np.linalg.lstsq(B,uu[m],rcond=None)[0]
        print(f"cells {cells} T {T} tend {tend} win {lo}-{hi} field amp {np.hypot(*c[:2]):.4f} dc {c[2]:.4f} res {abs(A@c-u[m]).max():.4f}  trace amp {np.hypot(*d[:2]):.4f} dc {d[2]:.4f} res {abs(B@d-uu[m]).max():.5f}")
fld(6,.8,1.,); fld(6,.8,3.); fld(6,.8,3.,ppf=50); fld(6,.8,.9); fld(6,.8,3.,ramp=8); fld(12,.8,3.); fld(8,.8,3.)
