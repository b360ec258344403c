export {
  CheckpointError,
  CommunicationError,
  ConfigurationError,
  DataError,
  KernelError,
  TrainingError,
  UsageError,
} from './error-classes.js';
export { type ErrorMessage, packError, unpackError } from './error-message.js';
export { exitCodeOf, formatError } from './format-error.js';
export { listedNames } from './listed-names.js';
export { MtlError, type MtlErrorOptions } from './mtl-error.js';
export { namingFile } from './naming-file.js';
export { nearestName } from './nearest-name.js';
export { nearestDivisors, nearestMultiples } from './nearest-values.js';
export { rewordError } from './reword-error.js';
