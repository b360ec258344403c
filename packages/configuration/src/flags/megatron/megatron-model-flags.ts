import { idle, type MegatronFlag, only, refused } from './megatron-flag.js';

/** Block variants. */
const architecture: Record<string, MegatronFlag> = {
  'softmax-type': only(['vanilla'], 'the kind of softmax in attention', 'attention has the usual softmax'),
  'no-position-embedding': {
    what: 'a model without learned position embeddings',
    why: 'the default of --position-embedding-type is learned_absolute',
    instead: 'pass --position-embedding-type rope, yarn or none, or leave it out',
    harmlessWith: { flag: 'position-embedding-type', values: ['rope', 'yarn', 'none'] },
    takes: 'nothing',
  },
  'rope-type': only(
    ['rope'],
    'the kind of rotary positions of latent attention',
    '--position-embedding-type says it',
    'leave it out, or pass --position-embedding-type yarn',
  ),
  ...refused(
    'feed-forward layers have GELU, SwiGLU, quick GEGLU or squared ReLU',
    'leave it out, or pass --swiglu, --quick-geglu or --squared-relu',
    { 'onnx-safe': 'a variant of GELU for ONNX' },
  ),
  ...refused(
    'positions are learned embeddings, rope, yarn or none',
    'leave it out; --position-embedding-type chooses one of them',
    {
      'mrope-section': 'rotary positions of several kinds',
      'no-rope-freq': 'layers without rotary positions',
      'relative-attention-num-buckets': 'relative positions',
      'relative-attention-max-distance': 'relative positions',
    },
  ),
  ...idle('the weights of norms have no weight decay, so they train the same when stored as they are', {
    'apply-layernorm-1p': 'weights of norms stored less 1',
  }),
  ...refused('residual connections start at the input of a sublayer, before its norm', 'leave it out', {
    'apply-residual-connection-post-layernorm': 'residual connections taken after the layer norm',
  }),
  ...refused('queries and keys have learned norms or none', 'leave it out, or use --qk-layernorm', {
    'qk-l2-norm': 'normalised queries and keys',
    'qk-clip': 'clipping of queries and keys',
  }),
  ...refused('the residual stream has the dtype of the model', 'leave it out', {
    'fp32-residual-connection': 'a residual stream in fp32',
  }),
  ...refused('all layers have the same window', 'use --window-size', {
    'window-attn-skip-freq': 'layers without the sliding window',
  }),
  ...refused('every layer has softmax attention', 'leave it out', {
    'attention-output-gate': 'gated attention',
    'linear-attention-type': 'linear attention',
    'experimental-attention-variant': 'variants of attention',
  }),
  ...refused('learning rates and initial weights do not depend on the width', 'leave it out', {
    mup: 'maximal update parametrisation',
    'use-mup': 'maximal update parametrisation',
  }),
  ...refused('initial weights are normal, embeddings included', 'use --init-method-std', {
    'embedding-init-method-std': 'another deviation for embeddings',
    'init-method-xavier-uniform': 'Xavier initialisation',
  }),
  ...refused('every layer has attention and a feed-forward network of the same shape', 'leave it out', {
    'heterogeneous-layers-config-path': 'layers of different shapes',
    'hybrid-layer-pattern': 'hybrid models',
    'hybrid-override-pattern': 'hybrid models',
    'hybrid-attention-ratio': 'hybrid models',
    'hybrid-mlp-ratio': 'hybrid models',
    'mamba-state-dim': 'state-space layers',
    'mamba-head-dim': 'state-space layers',
    'mamba-num-groups': 'state-space layers',
    'mamba-num-heads': 'state-space layers',
    'is-hybrid-model': 'hybrid models',
  }),
  ...refused('flags describe the blocks', 'leave it out', {
    spec: 'another specification of blocks',
  }),
  ...refused('a model has one stack of layers', 'use --num-layers', {
    'encoder-num-layers': 'encoder-decoder models',
    'decoder-num-layers': 'encoder-decoder models',
  }),
  ...refused('a model has one stack of layers', 'use --seq-length', {
    'encoder-seq-length': 'encoder-decoder models',
    'decoder-seq-length': 'encoder-decoder models',
  }),
  ...refused('heads have queries, keys and values of one size', 'leave it out', {
    'multi-latent-attention': 'multi-head latent attention',
    'q-lora-rank': 'multi-head latent attention',
    'kv-lora-rank': 'multi-head latent attention',
    'qk-head-dim': 'multi-head latent attention',
    'qk-pos-emb-head-dim': 'multi-head latent attention',
    'v-head-dim': 'multi-head latent attention',
    'cache-mla-latents': 'multi-head latent attention',
  }),
  ...refused('the model predicts one token at a time', 'leave it out', {
    'mtp-num-layers': 'prediction of several tokens',
    'mtp-loss-scaling-factor': 'prediction of several tokens',
  }),
};

/** Megatron-LM's flags about other models. */
export const megatronModelFlags: Readonly<Record<string, MegatronFlag>> = { ...architecture };
