import { embedding, linearCrossEntropy, Parameter, type Tape } from '@mtl/autograd';
import { numLiveTensors, Tensor } from '@mtl/kernels';
import { AdamwOptimizer, createStores } from '@mtl/optimizer';
import { Pipeline } from '@mtl/pipeline';
import { expect, it, onTestFinished } from 'vitest';
import { TapeStage } from './tape-stage.js';
import { Trainer } from './trainer.js';

/** A list of tokens, in which each token is predicted from the previous token. */
type Tokens = readonly number[];
const batch: Tokens = [0, 3, 1, 2, 0];

function bigrams() {
  const initialization = { kind: 'normal', standardDeviation: 0.5 } as const;
  const table = new Parameter({ name: 'table', globalShape: [4, 2], initialization });
  const head = new Parameter({ name: 'head', globalShape: [4, 2], initialization });
  const stores = createStores([table, head], { device: 'cpu', dtype: 'float32', seed: 1 });
  const optimizer = new AdamwOptimizer(stores);
  onTestFinished(() => optimizer.dispose());
  const forward = (tape: Tape, call: { readonly batch: Tokens; readonly lossFactor: number }) => {
    const shape = [call.batch.length - 1, 1];
    const ids = (values: Tokens) => tape.input(Tensor.from(values, { shape, dtype: 'int32' }));
    const factors = Array<number>(call.batch.length - 1).fill(call.lossFactor);
    const weights = tape.input(Tensor.from(factors, { shape, dtype: 'float32' }));
    const input = embedding(tape, [{ ids: ids(call.batch.slice(0, -1)), table }]);
    const labels = ids(call.batch.slice(1));
    const losses = linearCrossEntropy(tape, { input, weight: head, vocabularySize: 4, labels, weights });
    return { losses, weights };
  };
  return { parameters: [table, head], optimizer, stage: new TapeStage(forward), forward };
}

const call = { microBatch: 0, batch, lossFactors: { lm_loss: 0.25 } };

it('computes the same gradients in one sweep and in two halves, and keeps no memory', () => {
  const results = [true, false].map((weights) => {
    const { stage, parameters } = bigrams();
    const before = numLiveTensors();
    stage.forward(call);
    stage.backwardInput({ microBatch: 0, weights });
    const [loss] = stage.takeLosses(0);
    if (!weights) {
      expect(parameters.flatMap(({ mainGradient }) => mainGradient.toArray())).toEqual(Array(16).fill(0));
      stage.backwardWeight({ microBatch: 0 });
    }
    expect(loss!.name).toBe('lm_loss');
    expect(loss!.weights.toArray()).toEqual([0.25, 0.25, 0.25, 0.25]);
    expect(loss!.losses.shape).toEqual([4]);
    const losses = loss!.losses.toArray();
    loss!.dispose();
    expect(numLiveTensors()).toBe(before);
    return { losses, gradients: parameters.map(({ mainGradient }) => mainGradient.toArray()) };
  });
  expect(results[0]).toEqual(results[1]);
  expect(results[0]!.gradients.flat().some((value) => value !== 0)).toBe(true);
});

it('evaluates to the losses of forward, and lets go of what is abandoned', () => {
  const { stage } = bigrams();
  const before = numLiveTensors();
  stage.forward(call);
  stage.backwardInput({ microBatch: 0, weights: true });
  stage.evaluate({ ...call, microBatch: 1 });
  const [[trained], [evaluated]] = [stage.takeLosses(0), stage.takeLosses(1)];
  expect(evaluated!.losses.toArray()).toEqual(trained!.losses.toArray());
  trained!.dispose();
  evaluated!.dispose();
  stage.forward({ ...call, microBatch: 2 });
  stage.abandon(2);
  stage.forward({ ...call, microBatch: 3 });
  stage.abandon();
  expect(numLiveTensors()).toBe(before);
});

it('trains under a name of its own, and is refused where the run has no loss of that name', async () => {
  const { optimizer, forward } = bigrams();
  const pipeline = new Pipeline({ stages: new Map([[0, new TapeStage(forward, { lossName: 'next' })]]) });
  const makeTrainer = (name: string) =>
    new Trainer<Tokens>({
      pipeline,
      optimizer,
      learningRate: 0.1,
      batches: (async function* () {
        for (;;) yield batch;
      })(),
      losses: [{ name, per: 'token', count: (tokens) => tokens.length - 1 }],
      trainIterations: 60,
    });
  const losses: number[] = [];
  for await (const { loss } of makeTrainer('next')) losses.push(loss);
  expect(losses[0]).toBeGreaterThan(1);
  expect(losses.at(-1)).toBeLessThan(0.1);
  const steps = makeTrainer('other')[Symbol.asyncIterator]();
  await expect(steps.next()).rejects.toMatchObject({ code: 'MTL_LOSS_KINDS' });
});
