use lmc_kernels::workloads::*; use lmc_kernels::Path; use std::time::Instant;
fn main(){
 let paths: &[Path] = if std::env::args().nth(1).is_some() {&[Path::Fast,Path::Plain]} else {&[Path::Fast]};
 for w in WORKLOADS { for &path in paths {
  let mut t=Training::new(w,64,path,1).unwrap();
  let n=if path==Path::Fast {12} else {4}; let mut v=vec![]; let mut l=0.0;
  for _ in 0..n { let s=Instant::now(); l=t.step().unwrap().into_scalar::<f32>(); v.push(s.elapsed().as_secs_f64()*1e3); }
  v.sort_by(f64::total_cmp); let ms=v[v.len()/2];
  println!("{} {path:?} train {ms:.1} ms {:.0} GF/s loss {l}",w.name,w.train_operations(64)/ms/1e6);
  for b in [64,1] { let i=Inference::new(w,b,path,1).unwrap(); let mut v=vec![];
  for _ in 0..n { let s=Instant::now(); i.forward().unwrap().into_data(); v.push(s.elapsed().as_secs_f64()*1e3); }
  v.sort_by(f64::total_cmp); let ms=v[v.len()/2];
  println!("{} {path:?} forward {b} {ms:.2} ms {:.0} GF/s",w.name,w.forward_operations(b)/ms/1e6); }
 }}
}
