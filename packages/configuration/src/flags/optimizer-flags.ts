import { helpOfImpliedSwitches } from '../strategies/strategies.js';
import {
  choice,
  count,
  fraction,
  naturalNumber,
  nonNegativeNumber,
  positiveNumber,
  share,
  toggle,
} from './flag-kinds.js';
import { statePrecisionFlags } from './state-precision-flags.js';

/** The flags for Muon, which have no effect without `--optimizer muon`. */
export const muonFlags = {
  'muon-momentum': fraction("Weight of the old average of gradients in Muon's momentum.", {
    default: 0.9,
    learning: ({ optimizer }) => optimizer.muon?.momentum,
  }),
  'muon-nesterov': toggle('Nesterov momentum in Muon.', {
    learning: ({ optimizer }) => optimizer.muon?.nesterov,
  }),
  'muon-scale-mode': choice(
    ['spectral', 'unit_rms_norm', 'shape_scaling'],
    "Length of Muon's update of a matrix: sqrt(max(out, in)), sqrt(out / in) or sqrt(max(1, out / in)).",
    { default: 'spectral', learning: ({ optimizer }) => optimizer.muon?.scaleMode },
  ),
  'muon-extra-scale-factor': positiveNumber(
    "Factor of the length; with spectral, 0.2 gives updates the RMS of AdamW's updates.",
    { default: 1, learning: ({ optimizer }) => optimizer.muon?.extraScaleFactor },
  ),
  'muon-coefficient-type': choice(['simple', 'quintic'], 'Coefficients of Newton-Schulz.', {
    default: 'quintic',
    learning: ({ optimizer }) => optimizer.muon?.coefficientType,
  }),
  'muon-num-ns-steps': count('Steps of Newton-Schulz.', {
    default: 5,
    learning: ({ optimizer }) => optimizer.muon?.numSteps,
  }),
  'muon-fp32-matmul-prec': choice(
    ['low', 'medium', 'high'],
    'Precision of the matmuls of Newton-Schulz: bf16 (low and medium) or fp32.',
    { defaultText: 'medium with --bf16 or --fp16 where the hardware multiplies bf16, otherwise high' },
  ),
  'muon-no-split-qkv': toggle('Muon updates the weights of queries, keys and values as one matrix.'),
  'muon-tp-mode': choice(
    ['duplicated', 'distributed', 'blockwise'],
    'How tensor-parallel ranks compute an update of Muon: each all of it. distributed means the same; blockwise, whose result depends on the layout, is refused.',
    { default: 'duplicated' },
  ),
};

/**
 * The flags for AdamW and Muon, for the learning rate's schedule, for gradient clipping, and for loss
 * scaling.
 */
export const optimizerFlags = {
  optimizer: choice(
    ['adam', 'adamw', 'muon', 'dist_muon'],
    `AdamW (both names), or Muon for the matrices of hidden layers and AdamW for everything else; ${helpOfImpliedSwitches('optimizer')}.`,
    { default: 'adam', learning: ({ optimizer }) => (optimizer.muon === undefined ? 'adam' : 'muon') },
  ),
  ...muonFlags,
  ...statePrecisionFlags,
  lr: positiveNumber('Peak learning rate.'),
  'min-lr': nonNegativeNumber('Learning rate at the end of decay.', { default: 0 }),
  'decoupled-lr': positiveNumber('Peak learning rate of the word embedding and the output layer.', {
    defaultText: '--lr',
  }),
  'decoupled-min-lr': nonNegativeNumber('Their learning rate at the end of decay, next to --decoupled-lr.', {
    defaultText: '--min-lr',
    needs: ['decoupled-lr', 'is the lowest rate of a schedule without a peak'],
  }),
  'lr-decay-style': choice(
    ['constant', 'linear', 'cosine', 'inverse-square-root', 'WSD'],
    'How the learning rate falls after warm-up; WSD stays at the peak until its last phase.',
    { default: 'linear' },
  ),
  'lr-decay-iters': count('Step at which decay is complete, warm-up included.', {
    defaultText: '--train-iters',
  }),
  'lr-decay-samples': count('The same in samples, for --train-samples.', { defaultText: '--train-samples' }),
  'lr-warmup-iters': naturalNumber('Steps of linear warm-up.', { defaultText: '0' }),
  'lr-warmup-samples': naturalNumber('Samples of linear warm-up, for --train-samples.', { defaultText: '0' }),
  'lr-warmup-fraction': fraction(
    'Share of the decay steps to warm up over, instead of a number of steps; with --train-data the whole steps in it.',
  ),
  'lr-warmup-init': nonNegativeNumber('Learning rate of the first warm-up step.', { default: 0 }),
  'lr-wsd-decay-style': choice(
    ['exponential', 'linear', 'cosine', 'minus_sqrt'],
    'How the learning rate falls in the last phase of WSD.',
    { default: 'exponential' },
  ),
  'lr-wsd-decay-iters': count('Steps of the last phase of WSD.'),
  'lr-wsd-decay-samples': count('Samples of the last phase of WSD, for --train-samples.'),
  'weight-decay': nonNegativeNumber('Decoupled weight decay; biases and layer norms have none.', {
    default: 0.01,
  }),
  'adam-beta1': fraction("Decay rate of Adam's first moment.", { default: 0.9, learning: true }),
  'adam-beta2': fraction("Decay rate of Adam's second moment.", { default: 0.999, learning: true }),
  'adam-eps': positiveNumber("Term added to Adam's denominator.", { default: 1e-8, learning: true }),
  'clip-grad': nonNegativeNumber('Largest norm of all gradients together; 0 does not clip.', {
    default: 1,
    learning: true,
  }),
  'qk-clip': toggle(
    'After each step, scales down the queries and keys of heads whose highest attention score is above --qk-clip-threshold (Kimi K2; there with --optimizer muon). On CPUs.',
    { learning: true },
  ),
  'qk-clip-alpha': share('The share of the factor that queries get, as an exponent; keys get the rest.', {
    default: 0.5,
    learning: true,
  }),
  'qk-clip-threshold': positiveNumber('The highest attention score that --qk-clip leaves as it is.', {
    default: 100,
    learning: true,
  }),
  'loss-scale': positiveNumber(
    'A constant loss scale. Without it fp16 scales dynamically, bf16 and fp32 not at all.',
  ),
  'initial-loss-scale': positiveNumber('First dynamic loss scale.', { default: 2 ** 32 }),
  'min-loss-scale': positiveNumber('Lowest dynamic loss scale.', { default: 1 }),
  'loss-scale-window': count('Steps without overflow before the dynamic loss scale doubles.', {
    default: 1000,
  }),
  hysteresis: count('Overflows before the dynamic loss scale is halved.', { default: 2 }),
};
