import { type Initialization, Parameter } from '@mtl/autograd';
import { sliceOfRank, type TensorParallel } from '@mtl/tensor-parallel';
import { paddedVocabularySize, type TransformerConfiguration } from './transformer-configuration.js';
import { wholeOnEveryRank } from './whole-on-every-rank.js';

interface Spread {
  readonly tensorParallel: TensorParallel | undefined;
}

/** A table of the padded vocabulary [V, H], of which this process holds its rows. */
export function vocabularyTable(
  name: string,
  { model, tensorParallel }: Spread & { readonly model: TransformerConfiguration },
): Parameter {
  const vocabulary = paddedVocabularySize(model);
  const { hiddenSize, initMethodStd: standardDeviation } = model;
  return new Parameter({
    name,
    globalShape: [vocabulary, hiddenSize],
    slices: [
      sliceOfRank(tensorParallel, { size: vocabulary, what: 'entries of the padded vocabulary' }),
      { start: 0, end: hiddenSize },
    ],
    initialization: { kind: 'normal', standardDeviation },
  });
}

/** A parameter outside the blocks that every process holds whole, used with what is cut along the sequence. */
export function wholeParameter(
  name: string,
  options: Spread & { readonly globalShape: readonly number[]; readonly initialization: Initialization },
): Parameter {
  const { globalShape, initialization, tensorParallel } = options;
  return new Parameter({ name, globalShape, initialization, ...wholeOnEveryRank(tensorParallel) });
}

/** Weight and bias of a layer norm over the hidden size. */
export function normParameters(
  name: string,
  { hiddenSize, tensorParallel }: Spread & { readonly hiddenSize: number },
): { readonly weight: Parameter; readonly bias: Parameter } {
  const vector = (part: string, kind: 'ones' | 'zeros'): Parameter =>
    wholeParameter(`${name}.${part}`, {
      globalShape: [hiddenSize],
      initialization: { kind },
      tensorParallel,
    });
  return { weight: vector('weight', 'ones'), bias: vector('bias', 'zeros') };
}
