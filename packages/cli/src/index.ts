export { createProgram } from './create-program.js';
export { runMtl } from './run-mtl.js';
