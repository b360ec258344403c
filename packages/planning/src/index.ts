export { calibratedProfile } from './calibration/calibrated-profile.js';
export { keepMatmulChoices } from './calibration/keep-matmul-choices.js';
export { measureRates } from './calibration/measure-rates.js';
export { chooseCollectiveBytes, referenceRuns } from './calibration/reference-runs.js';
export type { ShardingTraffic } from './dry-run/communication-scopes.js';
export { type DryRun, dryRun } from './dry-run/dry-run.js';
export type { DryRunRank, MemoryByKind } from './dry-run/dry-run-rank.js';
export {
  type LibraryMemory,
  type PlannedRanks,
  type PlanRunOptions,
  planRun,
  type RunPlan,
} from './plan/plan-run.js';
export type { LayoutCandidate } from './plan/search/layout-candidates.js';
export {
  type FoundLayout,
  type LayoutSearch,
  type SearchLayoutsOptions,
  type SearchProgress,
  searchLayouts,
} from './plan/search/search-layouts.js';
export { planning } from './planning.js';
