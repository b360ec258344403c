export type {
  MaskedTokenBatch,
  NumberedBatch,
  SequencesOfBatch,
  TaskTokenBatch,
  TokenBatch,
} from './batches.js';
export {
  coverDefect,
  type FlatRangeBox,
  formatSlices,
  intersectSlices,
  type Slice,
  shapeDefect,
  shapeOfSlices,
  slicesDefect,
  slicesOfFlatRange,
  volumeOfShape,
  wholeSlices,
} from './boxes.js';
export { axesOfGroup, type GroupDeclaration, listMembers } from './groups.js';
export type { Dtype, LogicalTensor, ValueLimit } from './logical-tensor.js';
export {
  type AxisFacts,
  axisFacts,
  batchAxis,
  type CommunicationAxis,
  type CommunicationPart,
  communicationAxes,
  communicationPart,
  communicationParts,
  copyAxes,
  type DenseAxis,
  denseAxes,
  type ExpertAxis,
  isDenseAxis,
  layerAxes,
  type MeshAxis,
  type MeshView,
  meshAxes,
  meshViews,
  reductionAxes,
} from './mesh-axes.js';
export { axesOfCopies, axesOfPartialSums, type Placement } from './placement.js';
export { findStage, isFirstOfStage, type MeshCoordinates, ProcessMesh } from './process-mesh.js';
export type { OwnRows, PackedSamplesOfBatch, SequencePartition } from './sequences.js';
export {
  isCopySpreadOverShares,
  type ShareOfBatch,
  shareAmongGroups,
  shareOfBatch,
  wholeBatch,
} from './share-of-batch.js';
