export type { ListedSoftware } from '../profiles/profile.js';
export { scheduleOfLayout } from '../step/layout.js';
export { exposedSeconds, profileOfRun, recordedMessageSeconds } from '../step/predict-recorded-step.js';
export { overlappedSeconds } from '../timing/collective-seconds.js';
