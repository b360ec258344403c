// Measures the cost of a GPT's embedding and head, in units of a layer, and prints it next to
// `gptEmbeddingAndHeadCost`. The measured stages have one layer, with or without embedding and head, and run
// the forward and backward passes of a sample. The processor time of one thread is measured, so that other
// work on the machine has little effect.
//   npm run dev -- head-costs [float32 or bfloat16] [sequence length] [repetitions]
import { allocateParameters, initializeParameter } from '@mtl/autograd';
import { type DType, setNumThreads, Tensor } from '@mtl/kernels';
import {
  type GptModelConfiguration,
  GptStage,
  gptEmbeddingAndHeadCost,
  type TokenBatch,
} from '../../../packages/models/src/index.js';

const dtype = (process.argv[2] ?? 'float32') as DType;
const sequenceLength = Number(process.argv[3] ?? 256);
const numRepetitions = Number(process.argv[4] ?? 3);
/** The hidden sizes and numbers of heads of the presets gpt2-124m, gpt2-355m, gpt2-774m and gpt2-1.3b. */
const shapes = [
  { name: 'gpt2-124m', hiddenSize: 768, numAttentionHeads: 12 },
  { name: 'gpt2-355m', hiddenSize: 1024, numAttentionHeads: 16 },
  { name: 'gpt2-774m', hiddenSize: 1280, numAttentionHeads: 20 },
  { name: 'gpt2-1.3b', hiddenSize: 2048, numAttentionHeads: 16 },
];

const ids = Int32Array.from({ length: sequenceLength }, (_, index) => (index * 7919) % 50_257);
const batch: TokenBatch = {
  batchSize: 1,
  sequenceLength,
  tokens: ids,
  labels: ids,
  keyStart: undefined,
  lossMask: new Float32Array(sequenceLength).fill(1),
  positionIds: Int32Array.from({ length: sequenceLength }, (_, index) => index),
  sampleNumbers: Float64Array.of(0),
};

/**
 * Returns the shortest processor time, in milliseconds, of the forward and backward passes of one of three
 * layers. The first layer also has the embedding, and the last layer also has the head.
 */
function timeLayer(model: GptModelConfiguration, layer: number): number {
  const layers = { start: layer, end: layer + 1 };
  const stage = new GptStage({ model, device: 'cpu', dtype, seed: 1, layers });
  const storage = allocateParameters(stage.parameters, { device: 'cpu', dtype, mainGradients: true });
  for (const parameter of stage.parameters) initializeParameter(parameter, parameter.data, 1);
  const shape = stage.boundaryShape(batch);
  const zeros = (): Tensor => Tensor.zeros({ shape, dtype, device: 'cpu' });
  let least = Number.POSITIVE_INFINITY;
  for (let repetition = 0; repetition <= numRepetitions; repetition++) {
    const [input, outputGradient] = [stage.isFirst ? undefined : zeros(), stage.isLast ? undefined : zeros()];
    const before = process.cpuUsage();
    stage.forward({ microBatch: 0, batch, lossFactors: { lm_loss: 1 / sequenceLength }, input })?.dispose();
    stage.backwardInput({ microBatch: 0, outputGradient, weights: true })?.dispose();
    const { user, system } = process.cpuUsage(before);
    for (const loss of stage.takeLosses(0)) loss.dispose();
    input?.dispose();
    outputGradient?.dispose();
    // the first repetition also creates primitives and touches memory for the first time
    if (repetition > 0) least = Math.min(least, (user + system) / 1000);
  }
  storage.dispose();
  return least;
}

setNumThreads(1);
console.log(`in layers of ${sequenceLength} tokens, ${dtype}; least of ${numRepetitions}`);
for (const { name, ...shape } of shapes) {
  const model: GptModelConfiguration = {
    ...shape,
    numLayers: 3,
    ffnHiddenSize: 4 * shape.hiddenSize,
    maxPositionEmbeddings: sequenceLength,
    vocabularySize: 50_257,
    makeVocabularySizeDivisibleBy: 128,
    tieEmbeddings: true,
    layerNormEpsilon: 1e-5,
    geluKind: 'tanh',
    initMethodStd: 0.02,
    hiddenDropout: 0.1,
    attentionDropout: 0.1,
  };
  const [first, middle, last] = [0, 1, 2].map((layer) => timeLayer(model, layer)) as [number, number, number];
  const formula = gptEmbeddingAndHeadCost(model, sequenceLength);
  const of = (total: number): string => (total / middle - 1).toFixed(3);
  console.log(
    `${name}: a layer ${middle.toFixed(1)} ms, embedding ${of(first)} (formula ${formula.embedding.toFixed(3)}), ` +
      `head ${of(last)} (formula ${formula.head.toFixed(3)})`,
  );
}
