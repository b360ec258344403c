export type { TensorParallel } from './tensor-parallel.js';
