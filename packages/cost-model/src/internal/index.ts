export { calibratedProfilePath, isProfileKnown, profileNames } from '../open-profile.js';
export type { ListedSoftware } from '../profiles/profile.js';
export { scheduleOfLayout } from '../step/layout.js';
export { exposedSeconds, profileOfRun, recordedMessageSeconds } from '../step/predict-recorded-step.js';
export { collectiveSeconds } from '../timing/collective-seconds.js';
export { matmulBytes, peakFlops } from '../timing/hardware-times.js';
export { operationsSeconds, passSeconds } from '../timing/operations-seconds.js';
