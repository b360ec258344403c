export { PythonFloat, type PythonJsonValue } from '../samples/python-json.js';
export { MersenneTwister } from './mersenne-twister.js';
export { MersenneTwister64 } from './mersenne-twister-64.js';
export { RandomState, type Shufflable } from './random-state.js';
