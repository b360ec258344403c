export {
  catchError,
  type ProbedOptions,
  problemsOfOptions,
  takes,
  valuesOfAllTypes,
} from './probe-options.js';
