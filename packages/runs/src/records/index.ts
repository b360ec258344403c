export { type ComparableRun, type ComparableValue, comparableRun } from './comparable-run.js';
export { conditionsOf } from './conditions-of.js';
export { metricsPath } from './metrics-path.js';
export { type LastMetrics, lastMetricsIn, type MetricsRecord, renamedLosses } from './metrics-records.js';
export { isRun } from './read-run.js';
export { risingValidation } from './rising-validation.js';
export { parseRunRecord, type RunRecord, type RunStart, runRecordPath } from './run-record.js';
export { type RunState, stateOfRun } from './state-of-run.js';
