export { type ComparableRun, type ComparableValue, comparableRun, conditionsOf } from './comparable-run.js';
export { flagsOfStartOf } from './flags-of-start-of.js';
export {
  type LastMetrics,
  lastMetricsIn,
  type MetricsRecord,
  metricsPath,
  renamedLosses,
  risingValidation,
} from './metrics-records.js';
export { isRun } from './read-run.js';
export {
  parseRunRecord,
  type RunRecord,
  type RunStart,
  type RunState,
  runRecordPath,
  stateOfRun,
} from './run-record.js';
