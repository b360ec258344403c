export { broadcastJson } from '../broadcast-json.js';
export { type DeviceTimes, DeviceWaits } from '../device-waits.js';
export { createGlooGroup } from '../engines/gloo-engine.js';
export { joinHost } from '../engines/local-engine.js';
export { ncclMessageChannels, ncclProblem } from '../engines/nccl-engine.js';
export { readJobSecret } from '../environment/job-secret.js';
export {
  type Launcher,
  type ProcessEnvironment,
  readProcessEnvironment,
} from '../environment/process-environment.js';
export { isTypeScript, typescriptLoader } from '../environment/typescript-loader.js';
export type { Variables } from '../environment/variable-reader.js';
export { type HostOptions, NativeJob } from '../native/native-job.js';
export { NativeStore } from '../store/store.js';
export { everyInterfaceNotice, StoreServer, type StoreServerOptions } from '../store/store-server.js';
export { readJoinTimeout, waitNoticesMs } from '../world/wait-for-ranks.js';
