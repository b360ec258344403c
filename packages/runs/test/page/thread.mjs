import { runThread } from '@mtl/kernels-wasm32/load-in-page.mjs';

runThread();
