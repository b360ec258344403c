// these names have moved to @mtl/layout. This package exports them for one more version
export {
  type DenseAxis,
  type ExpertAxis,
  type GroupDeclaration,
  type MeshAxis,
  type MeshCoordinates,
  type MeshView,
  ProcessMesh,
} from '@mtl/layout';
export { broadcastJson } from './broadcast-json.js';
export type { JobEngineName } from './engines/engine.js';
export { glooProblem } from './engines/gloo-engine.js';
export { type NcclInformation, ncclInformation } from './engines/nccl-engine.js';
export { type MetaOperation, MetaWorld, type MetaWorldOptions } from './meta-world.js';
export type { TakenTrace, TraceEntry } from './native/comm-addon.js';
export type {
  AllToAllOptions,
  CommunicationOperation,
  EngineName,
  OperationCount,
  ProcessGroup,
  ReduceOperation,
  Work,
} from './process-group.js';
export { SingleProcessGroup } from './single-process-group.js';
export type { Store } from './store/store.js';
export { createMeshGroups, type MeshGroups } from './world/create-mesh-groups.js';
export { type JoinWorldOptions, joinWorld } from './world/join-world.js';
export type { JoinedWorld } from './world/joined-world.js';
export { LocalWorld, type LocalWorldOptions } from './world/local-world.js';
export type { GroupOptions, World } from './world.js';
