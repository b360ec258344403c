export type { Launcher, ProcessEnvironment, Variables } from './environment/process-environment.js';
export { readProcessEnvironment } from './environment/read-process-environment.js';
export { glooProblem } from './gloo/gloo-problem.js';
export { LocalWorld, type LocalWorldOptions } from './local/local-world.js';
export type { MetaOperation } from './meta/meta-group.js';
export { MetaWorld, type MetaWorldOptions } from './meta/meta-world.js';
export type { TakenTrace, TraceEntry } from './native/comm-addon.js';
export { type NcclInformation, ncclInformation, ncclProblem } from './nccl/nccl-information.js';
export type {
  AllToAllOptions,
  CommunicationOperation,
  EngineName,
  OperationCount,
  ProcessGroup,
  ReduceOperation,
  Work,
} from './process-group.js';
export {
  type DenseAxis,
  denseAxes,
  type ExpertAxis,
  expertAxes,
  type MeshAxis,
  type MeshCoordinates,
  type MeshView,
  meshAxes,
  meshViews,
  ProcessMesh,
} from './process-mesh.js';
export { SingleProcessGroup } from './single-process-group.js';
export type { Store } from './store.js';
export {
  createMeshGroups,
  type GroupDeclaration,
  type MeshGroups,
  membersOf,
} from './world/create-mesh-groups.js';
export type { Engine, EngineContext, EngineFactory } from './world/engine.js';
export type { JobEngineName } from './world/job-engine-name.js';
export { type JoinWorldOptions, joinWorld } from './world/join-world.js';
export { type JoinedParts, JoinedWorld } from './world/joined-world.js';
export type { GroupOptions, World } from './world.js';
