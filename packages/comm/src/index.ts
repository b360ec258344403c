export { createGlooGroup, type GlooGroupOptions } from './gloo/create-gloo-group.js';
export { glooProblem } from './gloo/gloo-problem.js';
export { resolveSocketAddress, type SocketAddressOptions } from './gloo/resolve-socket-address.js';
export { type JoinHostOptions, joinHost } from './local/join-host.js';
export { LocalWorld, type LocalWorldOptions } from './local/local-world.js';
export type { TraceEntry } from './native/addon.js';
export { NativeGroup, type NativeGroupOptions } from './native/native-group.js';
export { type HostOptions, type LocalGroupOptions, NativeJob } from './native/native-job.js';
export type {
  CommunicationOperation,
  EngineName,
  OperationCount,
  ProcessGroup,
  ReduceOperation,
  Work,
} from './process-group.js';
export { type MeshAxis, type MeshCoordinates, meshAxes, ProcessMesh } from './process-mesh.js';
export { SingleProcessGroup } from './single-process-group.js';
export type { Store } from './store.js';
export type { GroupOptions, World } from './world.js';
