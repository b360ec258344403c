export { readJobSecret } from './environment/job-secret.js';
export { type ProcessEnvironment, readProcessEnvironment } from './environment/process-environment.js';
export { isTypeScript, typescriptLoader } from './environment/typescript-loader.js';
export type { Variables } from './environment/variable-reader.js';
export { NativeJob } from './native/native-job.js';
export { NativeStore } from './store/store.js';
export { everyInterfaceNotice, StoreServer, type StoreServerOptions } from './store/store-server.js';
export { readJoinTimeout, waitNoticesMs } from './world/wait-for-ranks.js';
