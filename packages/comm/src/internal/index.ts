export type { DeviceTimes } from '../device-waits.js';
export { ncclMessageChannels, ncclProblem } from '../engines/nccl-engine.js';
export { nextTurn } from '../next-turn.js';
