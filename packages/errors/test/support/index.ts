export { errorOf, type ProbedOptions, problemsOfOptions, takes, valuesOfAllTypes } from './probe-options.js';
