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
export type { GroupOptions, World } from './world.js';
