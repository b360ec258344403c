import type { ForeignFlag } from './foreign-flags.js';

/** Flags that share the reason why they are refused. */
function refused(
  why: string,
  instead: string,
  flags: Readonly<Record<string, string>>,
): Record<string, ForeignFlag> {
  return Object.fromEntries(
    Object.entries(flags).map(([name, what]) => [name, { what, why, instead, takes: 'many' } as const]),
  );
}

/** Switches that change nothing here, for one reason. */
function idle(why: string, flags: Readonly<Record<string, string>>): Record<string, ForeignFlag> {
  return Object.fromEntries(
    Object.entries(flags).map(([name, what]) => [
      name,
      { what, why, harmless: 'always', takes: 'nothing' } as const,
    ]),
  );
}

/** Settings with a value that change nothing here, for one reason. */
function idleSetting(why: string, flags: Readonly<Record<string, string>>): Record<string, ForeignFlag> {
  return Object.fromEntries(
    Object.entries(flags).map(([name, what]) => [
      name,
      { what, why, harmless: 'always', takes: 'one' } as const,
    ]),
  );
}

/** A setting that is right with some values only: those that say what happens here anyway. */
function only(values: readonly string[], what: string, why: string, instead = 'leave it out'): ForeignFlag {
  return { what, why, instead, harmless: values, takes: 'one' };
}

/** Block variants. */
const architecture: Record<string, ForeignFlag> = {
  ...refused(
    "the block is GPT-2's, with tanh-GELU",
    'leave it out; --ffn-hidden-size sets the width of the layer',
    {
      swiglu: 'feed-forward layers with SwiGLU',
      'squared-relu': 'feed-forward layers with squared ReLU',
      'quick-geglu': 'feed-forward layers with quick GEGLU',
      'openai-gelu': 'a variant of GELU',
      'onnx-safe': 'a variant of GELU for ONNX',
      'glu-linear-offset': 'an offset in gated feed-forward layers',
      'activation-func-clamp-value': 'clamped activations',
    },
  ),
  ...refused(
    'positions are learned embeddings, as in GPT-2',
    'leave it out; --max-position-embeddings sets their number',
    {
      'use-rotary-position-embeddings': 'rotary positions',
      'rotary-base': 'the base of rotary positions',
      'rotary-percent': 'the rotated share of a head',
      'rotary-interleaved': 'a layout of rotary positions',
      'rotary-seq-len-interpolation-factor': 'stretched rotary positions',
      'rotary-scaling-factor': 'scaled rotary positions',
      'use-rope-scaling': 'scaled rotary positions',
      'rope-scaling-factor': 'scaled rotary positions',
      'mrope-section': 'rotary positions of several kinds',
      'no-rope-freq': 'layers without rotary positions',
      'no-position-embedding': 'a model without position embeddings',
      'relative-attention-num-buckets': 'relative positions',
      'relative-attention-max-distance': 'relative positions',
    },
  ),
  'position-embedding-type': only(
    ['learned_absolute'],
    'the kind of position embedding',
    'positions are learned embeddings, as in GPT-2',
  ),
  normalization: only(['LayerNorm'], 'the kind of normalisation', 'the block has layer norms, as in GPT-2'),
  'norm-epsilon': only(['1e-5', '1e-05', '0.00001'], 'the epsilon of layer norms', "it is GPT-2's 1e-5"),
  'layernorm-epsilon': only(['1e-5', '1e-05', '0.00001'], 'the epsilon of layer norms', "it is GPT-2's 1e-5"),
  'kv-channels': only(
    [],
    'the size of a head',
    'it is --hidden-size / --num-attention-heads',
    'choose --num-attention-heads instead',
  ),
  ...refused(
    'every block has biases, layer norms before its parts, and one residual stream',
    'leave it out',
    {
      'disable-bias-linear': 'linear layers without bias',
      'add-qkv-bias': 'a bias for queries, keys and values only',
      'apply-layernorm-1p': 'layer norms stored around zero',
      'apply-residual-connection-post-layernorm': 'residual connections taken after the layer norm',
      'qk-layernorm': 'layer norms of queries and keys',
      'qk-l2-norm': 'normalised queries and keys',
      'qk-clip': 'clipping of queries and keys',
      'fp32-residual-connection': 'a residual stream in fp32',
      'window-size': 'sliding-window attention',
      'window-attn-skip-freq': 'sliding-window attention',
      'attention-output-gate': 'gated attention',
      'softmax-type': 'a variant of softmax',
      mup: 'maximal update parametrisation',
      'use-mup': 'maximal update parametrisation',
      'embedding-init-method-std': 'another deviation for embeddings',
      'init-method-xavier-uniform': 'Xavier initialisation',
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
      'linear-attention-type': 'linear attention',
      'experimental-attention-variant': 'variants of attention',
      spec: 'another specification of blocks',
      'encoder-num-layers': 'encoder-decoder models',
      'decoder-num-layers': 'encoder-decoder models',
      'encoder-seq-length': 'encoder-decoder models',
      'decoder-seq-length': 'encoder-decoder models',
    },
  ),
  ...refused('every head has keys and values of its own', 'leave it out', {
    'group-query-attention': 'grouped queries',
    'num-query-groups': 'grouped queries',
    'multi-latent-attention': 'multi-head latent attention',
    'q-lora-rank': 'multi-head latent attention',
    'kv-lora-rank': 'multi-head latent attention',
    'qk-head-dim': 'multi-head latent attention',
    'qk-pos-emb-head-dim': 'multi-head latent attention',
    'v-head-dim': 'multi-head latent attention',
  }),
  ...refused('the model predicts one token at a time', 'leave it out', {
    'mtp-num-layers': 'prediction of several tokens',
    'mtp-loss-scaling-factor': 'prediction of several tokens',
  }),
};

/** Mixture of experts. */
const experts = refused(
  'feed-forward layers are dense; there are no experts',
  'leave it out; a wider dense layer is --ffn-hidden-size',
  {
    'num-experts': 'a mixture of experts',
    'moe-layer-freq': 'which layers have experts',
    'moe-ffn-hidden-size': 'the width of an expert',
    'moe-shared-expert-intermediate-size': 'shared experts',
    'moe-shared-expert-overlap': 'shared experts',
    'moe-router-topk': 'experts per token',
    'moe-router-load-balancing-type': 'balancing of experts',
    'moe-router-score-function': 'scores of experts',
    'moe-router-dtype': 'the precision of routing',
    'moe-router-num-groups': 'groups of experts',
    'moe-router-group-topk': 'groups of experts',
    'moe-router-topk-scaling-factor': 'scores of experts',
    'moe-router-enable-expert-bias': 'balancing of experts by bias',
    'moe-router-bias-update-rate': 'balancing of experts by bias',
    'moe-router-pre-softmax': 'scores of experts',
    'moe-router-fusion': 'fused routing',
    'moe-router-force-load-balancing': 'forced balancing',
    'moe-aux-loss-coeff': 'the auxiliary loss of routing',
    'moe-z-loss-coeff': 'the z-loss of routing',
    'moe-input-jitter-eps': 'noise in routing',
    'moe-token-dispatcher-type': 'exchange of tokens between experts',
    'moe-flex-dispatcher-backend': 'exchange of tokens between experts',
    'moe-enable-deepep': 'exchange of tokens between experts',
    'moe-token-drop-policy': 'capacity of experts',
    'moe-expert-capacity-factor': 'capacity of experts',
    'moe-pad-expert-input-to-capacity': 'capacity of experts',
    'moe-grouped-gemm': 'grouped products of experts',
    'moe-use-legacy-grouped-gemm': 'grouped products of experts',
    'moe-permute-fusion': 'fused permutation of tokens',
    'moe-layer-recompute': 'recomputation of experts',
    'moe-per-layer-logging': 'metrics of experts',
    'moe-extended-tp': 'experts over tensor-parallel ranks',
    'moe-use-upcycling': 'experts made from dense layers',
    'expert-tensor-parallel-size': 'processes per expert',
    'overlap-moe-expert-parallel-comm': 'overlapped exchange of tokens',
  },
);

/** Low precision, and how numbers are kept. */
const precision: Record<string, ForeignFlag> = {
  ...refused('products are computed in fp32, bf16 or fp16', 'use --bf16', {
    'fp8-format': 'training in FP8',
    'fp8-recipe': 'training in FP8',
    'fp8-hybrid': 'training in FP8',
    'fp8-e4m3': 'training in FP8',
    'fp8-margin': 'training in FP8',
    'fp8-interval': 'training in FP8',
    'fp8-amax-history-len': 'training in FP8',
    'fp8-amax-compute-algo': 'training in FP8',
    'fp8-param': 'weights in FP8',
    'fp8-param-gather': 'weights in FP8',
    'first-last-layers-bf16': 'training in FP8',
    'num-layers-at-start-in-bf16': 'training in FP8',
    'num-layers-at-end-in-bf16': 'training in FP8',
    'no-fp8-wgrad': 'training in FP8',
    'fp4-format': 'training in FP4',
    'fp4-recipe': 'training in FP4',
    'fp4-param': 'weights in FP4',
  }),
  ...refused('master weights, gradients and optimizer state are fp32', 'leave it out', {
    'use-precision-aware-optimizer': 'optimizer state in lower precision',
    'main-grads-dtype': 'gradients in lower precision',
    'main-params-dtype': 'master weights in lower precision',
    'exp-avg-dtype': 'optimizer state in lower precision',
    'exp-avg-sq-dtype': 'optimizer state in lower precision',
    'store-param-remainders': 'master weights as remainders',
    'grad-reduce-in-bf16': 'reduction of gradients in bf16',
    'fp16-lm-cross-entropy': 'a loss in fp16',
    'no-attention-softmax-in-fp32': 'softmax in lower precision',
  }),
  ...idle('gradients are always summed in fp32', {
    'accumulate-allreduce-grads-in-fp32': 'sums of gradients in fp32',
    'no-gradient-accumulation-fusion': 'unfused sums of gradients',
  }),
  ...idle('softmax is always computed in fp32', {
    'attention-softmax-in-fp32': 'softmax in fp32',
    'apply-query-key-layer-scaling': 'scores scaled by the number of the layer, and back',
    'no-query-key-layer-scaling': 'scores without scaling by the number of the layer',
  }),
};

/** Which implementation computes a part. */
const implementation: Record<string, ForeignFlag> = {
  ...idle('attention never stores its S x S scores, whatever the shape', {
    'use-flash-attn': 'FlashAttention',
    'use-flash-attn-v3': 'FlashAttention 3',
    'use-fused-attn': 'fused attention',
  }),
  ...idle('the kernels here are fused where it pays, and the fused ones have the same results', {
    'no-masked-softmax-fusion': 'unfused softmax',
    'no-bias-gelu-fusion': 'unfused bias and GELU',
    'no-bias-swiglu-fusion': 'unfused SwiGLU',
    'no-bias-dropout-fusion': 'unfused bias and dropout',
    'no-rope-fusion': 'unfused rotary positions',
    'no-persist-layer-norm': 'another layer norm kernel',
    'cross-entropy-loss-fusion': 'a fused loss',
    'use-fused-weighted-squared-relu': 'fused squared ReLU',
    'bias-dropout-fusion': 'fused bias and dropout',
    'bias-gelu-fusion': 'fused bias and GELU',
    'no-async-tensor-model-parallel-allreduce': 'reductions that do not overlap',
    'deterministic-mode': 'bitwise repeatable training',
    'use-cpu-initialization': 'initial weights made on the CPU',
    'no-initialization': 'skipped initialisation',
    'use-mcore-models': "Megatron Core's models",
    'use-distributed-data-parallel': 'data parallelism',
  }),
  ...idleSetting('the kernels here are the same for every choice of it', {
    'attention-backend': 'the kernel of attention',
    'transformer-impl': 'the implementation of blocks',
    'cross-entropy-fusion-impl': 'the kernel of the loss',
    'cuda-graph-impl': 'CUDA graphs',
    'cuda-graph-scope': 'CUDA graphs',
    'cuda-graph-warmup-steps': 'CUDA graphs',
  }),
  ...idle('whether steps are replayed as CUDA graphs is not a setting', {
    'enable-cuda-graph': 'CUDA graphs',
    'external-cuda-graph': 'CUDA graphs',
    'te-rng-tracker': 'a random state for CUDA graphs',
    'use-te-rng-tracker': 'a random state for CUDA graphs',
  }),
  ...idle('memory comes from one caching allocator, and there is no Python collector', {
    'manual-gc': 'garbage collection by hand',
    'no-manual-gc-eval': 'garbage collection by hand',
    'deallocate-pipeline-outputs': 'freed outputs of stages',
    'nccl-ub': 'registered communication buffers',
  }),
  ...idleSetting('memory comes from one caching allocator, and there is no Python collector', {
    'manual-gc-interval': 'garbage collection by hand',
    'empty-unused-memory-level': 'returning memory to the device',
  }),
  ...refused(
    'activations and optimizer state stay on the device',
    'use --recompute-granularity to save memory',
    {
      'cpu-offloading': 'activations moved to the host',
      'cpu-offloading-num-layers': 'activations moved to the host',
      'optimizer-cpu-offload': 'optimizer state on the host',
      'optimizer-offload-fraction': 'optimizer state on the host',
      'offload-optimizer-states': 'optimizer state on the host',
      'fine-grained-activation-offloading': 'activations moved to the host',
      'distribute-saved-activations': 'activations split over ranks',
      'recompute-modules': 'a choice of modules to recompute',
    },
  ),
  ...refused('the flag has another name', 'use --recompute-granularity selective', {
    'recompute-activations': 'recomputation of attention',
  }),
  ...refused('the flag has another name', 'use --recompute-granularity full', {
    'checkpoint-activations': 'recomputation of layers',
    'activations-checkpoint-method': 'recomputation of layers',
    'activations-checkpoint-num-layers': 'recomputation of layers',
  }),
};

/** Processes and what they say to each other. */
const parallelism: Record<string, ForeignFlag> = {
  'context-parallel-size': only(
    ['1'],
    'samples split over processes along the sequence, attention included',
    'attention needs the whole sequence on one tensor-parallel group',
    'use --sequence-parallel with --tensor-model-parallel-size for long sequences',
  ),
  'hierarchical-context-parallel-sizes': only(
    [],
    'levels of context parallelism',
    'there is no context parallelism',
  ),
  'cp-comm-type': only([], 'communication of context parallelism', 'there is no context parallelism'),
  'expert-model-parallel-size': only(['1'], 'experts split over processes', 'there are no experts'),
  'virtual-pipeline-model-parallel-size': only(
    ['1'],
    'chunks per stage',
    'the number of chunks follows from their size',
    'use --num-layers-per-virtual-pipeline-stage',
  ),
  'num-virtual-stages-per-pipeline-rank': only(
    ['1'],
    'chunks per stage',
    'the number of chunks follows from their size',
    'use --num-layers-per-virtual-pipeline-stage',
  ),
  ...refused(
    'every stage has the same number of layers',
    'choose a --pipeline-model-parallel-size that divides --num-layers',
    {
      'pipeline-model-parallel-layout': 'stages of different sizes',
      'decoder-first-pipeline-num-layers': 'a first stage of another size',
      'decoder-last-pipeline-num-layers': 'a last stage of another size',
      'account-for-embedding-in-pipeline-split': 'stages of different sizes',
      'account-for-loss-in-pipeline-split': 'stages of different sizes',
      'pipeline-model-parallel-split-rank': 'encoder and decoder on different stages',
      'microbatch-group-size-per-virtual-pipeline-stage': 'groups of micro-batches',
    },
  ),
  ...refused('parameters are whole on every data-parallel rank', 'use --use-distributed-optimizer', {
    'use-torch-fsdp2': 'fully sharded data parallelism',
    'use-megatron-fsdp': 'fully sharded data parallelism',
    'use-custom-fsdp': 'fully sharded data parallelism',
    'data-parallel-sharding-strategy': 'fully sharded data parallelism',
    'num-distributed-optimizer-instances': 'replicas of the distributed optimizer',
  }),
  'distributed-backend': {
    what: 'the library that processes talk through',
    why: 'shared memory on one host, Gloo between CPUs and NCCL between GPUs are chosen by where the processes run',
    harmless: 'always',
    takes: 'one',
  },
  ...idle('who overlaps with whom is decided by the schedule and the layers', {
    'no-overlap-p2p-communication': 'communication of stages that does not overlap',
    'overlap-p2p-communication-warmup-flush': 'overlapped communication of stages',
    'tp-comm-overlap': 'overlapped tensor-parallel communication',
    'disable-tp-comm-overlap-ag': 'overlapped tensor-parallel communication',
    'disable-tp-comm-overlap-rs': 'overlapped tensor-parallel communication',
    'disable-tp-comm-bulk-dgrad': 'overlapped tensor-parallel communication',
    'disable-tp-comm-bulk-wgrad': 'overlapped tensor-parallel communication',
    'delay-wgrad-compute': 'the time of weight gradients',
    'defer-embedding-wgrad-compute': 'the time of the weight gradient of the output layer',
    'no-scatter-gather-tensors-in-pipeline': 'boundaries sent whole',
    'no-align-grad-reduce': 'the time of reductions',
    'no-align-param-gather': 'the time of gathers',
    'overlap-param-gather-with-optimizer-step': 'overlapped gathers',
    'use-ring-exchange-p2p': 'communication of stages',
    'batch-p2p-communication': 'communication of stages',
    'use-tp-pp-dp-mapping': 'the order of ranks',
    'lazy-mpu-init': 'late set-up of process groups',
    'use-sharp': 'reductions inside the network',
  }),
  ...idleSetting('it is found out or measured, not set', {
    'ddp-bucket-size': 'the size of gradient buckets',
    'ddp-num-buckets': 'the number of gradient buckets',
    'local-rank': "this process's number on its host (the launcher says it)",
    'nccl-communicator-config-path': 'settings of NCCL',
    'high-priority-stream-groups': 'priorities of communication',
  }),
  ...idle('every gradient is checked in each step', {
    'check-for-nan-in-loss-and-grad': 'a check for NaN',
    'no-check-for-nan-in-loss-and-grad': 'no check for NaN',
  }),
};

/** The recipe of training. */
const recipe: Record<string, ForeignFlag> = {
  optimizer: only(
    ['adam', 'adamw'],
    'the optimizer',
    'there is AdamW',
    'leave it out, or use --optimizer adam',
  ),
  'dataloader-type': only(
    ['single'],
    'the order of samples',
    'samples follow the shuffled index of the dataset',
  ),
  'lr-decay-iterations': only(
    [],
    'decay of the learning rate',
    'the flag has another name',
    'use --lr-decay-iters',
  ),
  ...refused('weight decay is constant', 'use --weight-decay', {
    'start-weight-decay': 'weight decay that grows',
    'end-weight-decay': 'weight decay that grows',
    'weight-decay-incr-style': 'weight decay that grows',
    'apply-wd-to-qk-layernorm': 'weight decay of layer norms',
  }),
  ...refused('all weights have one learning rate', 'use --lr', {
    'decoupled-lr': 'another learning rate for the embeddings',
    'decoupled-min-lr': 'another learning rate for the embeddings',
    'head-lr-mult': 'another learning rate for the head',
  }),
  ...refused('there is AdamW', 'leave it out', {
    'sgd-momentum': 'momentum of SGD',
    'muon-momentum': 'the optimizer Muon',
    'muon-scale-mode': 'the optimizer Muon',
    'muon-num-ns-steps': 'the optimizer Muon',
    'muon-fp32-matmul-prec': 'the optimizer Muon',
    'muon-tp-mode': 'the optimizer Muon',
    'use-layer-wise-distributed-optimizer': 'the optimizer Muon',
  }),
  ...refused('the global batch follows one ramp', 'use --rampup-batch-size', {
    'step-batch-size-schedule': 'a global batch that grows in steps',
    'decrease-batch-size-if-needed': 'a global batch made smaller until it divides',
  }),
  ...refused('the flag has another name', 'use --micro-batch-size', {
    'batch-size': 'the batch per process, in old versions',
  }),
  ...refused(
    'steps are counted, not minutes',
    'use --exit-interval, or send SIGTERM: it saves and ends the run',
    {
      'exit-duration-in-mins': 'a limit in minutes',
    },
  ),
  ...refused(
    'a run trains, and evaluates --eval-iters batches now and then',
    'use mtl eval for an evaluation by itself',
    {
      'skip-train': 'evaluation without training',
      'full-validation': 'evaluation on all validation data',
      'multiple-validation-sets': 'several validation sets',
      'eval-micro-batch-size': 'other batch sizes for evaluation',
      'eval-global-batch-size': 'other batch sizes for evaluation',
      'start-eval-at-iter': 'evaluation from some step on',
      'iterations-to-skip': 'skipped iterations',
      'test-mode': 'a mode for tests',
    },
  ),
  ...refused(
    'a checkpoint keeps the schedule by the number of steps only: the flags always decide',
    'leave it out',
    {
      'use-checkpoint-opt-param-scheduler': 'the schedule of the checkpoint',
      'use-checkpoint-args': 'the flags of the checkpoint (pass --config with its configuration instead)',
    },
  ),
  ...idle('the flags always decide about the schedule', {
    'override-opt-param-scheduler': 'the schedule of the flags instead of the checkpoint',
  }),
  ...idle('SIGTERM and SIGINT always save and end the run', {
    'exit-signal-handler': 'saving at SIGTERM',
    'exit-signal-handler-for-training': 'saving at SIGTERM',
  }),
  ...refused('weights and dropout follow from --seed and the global coordinates alone', 'leave it out', {
    'data-parallel-random-init': 'other initial weights on each rank',
    'inference-rng-tracker': 'another random state',
  }),
  ...refused('it needs a model or loss that is not here', 'leave it out', {
    'perform-rl-step': 'reinforcement learning',
    'fim-data': 'fill-in-the-middle samples',
    'fim-rate': 'fill-in-the-middle samples',
    sft: 'fine-tuning on conversations',
    'kd-teacher-load': 'distillation',
    'kd-distill-cfg': 'distillation',
    'retro-project-dir': 'retrieval',
    'retro-add-retriever': 'retrieval',
    'img-h': 'images',
    'img-w': 'images',
    'patch-dim': 'images',
    'num-classes': 'images',
    'mask-prob': "BERT's masking (apps/bert-train)",
    'short-seq-prob': "BERT's samples (apps/bert-train)",
    'bert-no-binary-head': "BERT's sentence order (apps/bert-train)",
    task: 'evaluation tasks',
  }),
};

/** Corpora and tokenizers. */
const data: Record<string, ForeignFlag> = {
  ...refused('one --data-path is cut by --split', 'use --data-path and --split', {
    'train-data-path': 'a dataset for training only',
    'valid-data-path': 'a dataset for validation only',
    'test-data-path': 'a dataset for tests only',
    'per-split-data-args-path': 'datasets by part',
    'data-args-path': 'a file with --data-path',
  }),
  ...refused('datasets are read from files', 'prepare one with mtl data prepare', {
    'mock-data': 'made-up samples',
    'object-storage-cache-path': 'datasets in object stores',
    'mid-level-dataset-surplus': 'samples built beyond what a blend needs',
  }),
  ...refused(
    'the tokenizer is described by its own files',
    'use --tokenizer-type HuggingFaceTokenizer --tokenizer-model tokenizer.json',
    {
      'tiktoken-pattern': 'a tiktoken tokenizer',
      'tiktoken-num-special-tokens': 'a tiktoken tokenizer',
      'tiktoken-special-tokens': 'a tiktoken tokenizer',
      'tokenizer-prompt-format': 'prompts of a tokenizer',
      'special-tokens': 'special tokens of a tokenizer',
      'tokenizer-metadata': 'a description of a tokenizer',
    },
  ),
  ...refused('the padded vocabulary follows from the tokenizer', 'use --make-vocab-size-divisible-by', {
    'padded-vocab-size': 'the size of the padded vocabulary',
    'vocab-extra-ids': 'more token ids',
  }),
  ...idle('the loss is always the mean over all tokens of the global batch', {
    'calculate-per-token-loss': 'a mean over tokens',
    'ddp-average-in-collective': 'where gradients are averaged',
  }),
  ...idle('the tokenizer is always the one that the flags name', {
    'no-use-tokenizer-model-from-checkpoint-args': 'the tokenizer of the flags instead of the checkpoint',
  }),
  ...idleSetting('data is read ahead by what a step takes, not by a number of processes', {
    'num-workers': 'processes that read data',
    'num-dataset-builder-threads': 'threads that build indices',
    'data-sharding': 'who reads which sample',
    's3-cache-path': 'datasets in object stores',
  }),
  ...idle('files are mapped or read as it suits', {
    'no-mmap-bin-files': 'files that are not mapped',
    'no-create-attention-mask-in-dataloader': 'who makes the attention mask',
    'no-data-sharding': 'who reads which sample',
  }),
};

/** Checkpoints. */
const checkpoints: Record<string, ForeignFlag> = {
  ...idleSetting('there is one format: safetensors with logical names, readable under any layout', {
    'ckpt-format': 'the format of checkpoints',
    'dist-ckpt-format': 'the format of checkpoints',
    'dist-ckpt-strictness': 'how strictly checkpoints are read (always strictly)',
    'ckpt-fully-parallel-load-exchange-algo': 'how checkpoints are read',
    'ckpt-assume-constant-structure-level': 'how checkpoints are written',
  }),
  ...idle('checkpoints are written by all ranks, atomically, with checksums, and read under any layout', {
    'use-dist-ckpt': 'distributed checkpoints',
    'ckpt-fully-parallel-save': 'checkpoints written by all ranks',
    'no-ckpt-fully-parallel-save': 'checkpoints written by some ranks',
    'ckpt-fully-parallel-load': 'checkpoints read by all ranks',
    'ckpt-assume-constant-structure': 'how checkpoints are written',
    'dist-ckpt-optim-fully-reshardable': 'optimizer state for any layout',
    'auto-detect-ckpt-format': 'finding out the format',
    'dist-ckpt-save-pre-mcore-014': 'an old format',
  }),
  ...refused('a checkpoint is written before training goes on, so that it is whole', 'leave it out', {
    'async-save': 'checkpoints written in the background',
    'use-persistent-ckpt-worker': 'checkpoints written in the background',
    'non-persistent-save-interval': 'temporary checkpoints',
    'non-persistent-ckpt-type': 'temporary checkpoints',
    'save-retain-interval': 'which checkpoints to keep (--keep-last keeps the newest)',
    'most-recent-k': 'which checkpoints to keep (--keep-last keeps the newest)',
  }),
  ...refused('a checkpoint always holds what makes resuming bitwise', 'leave it out', {
    'no-save-optim': 'checkpoints without the optimizer (--save-hf writes weights only)',
    'no-save-rng': 'checkpoints without the random state',
  }),
  ...refused('what happens when --load finds nothing is not a setting', 'leave it out', {
    'exit-on-missing-checkpoint': 'an error when there is nothing to load',
  }),
  ...refused('checkpoints are converted by a command', 'use mtl convert, --load-hf or --save-hf', {
    'pretrained-checkpoint': 'weights to start from (--load with --finetune)',
    'ckpt-convert-format': 'conversion of checkpoints',
    'ckpt-convert-save': 'conversion of checkpoints',
    'ckpt-convert-update-legacy-dist-opt-format': 'conversion of checkpoints',
  }),
};

/** Reports, profiles and recovery. */
const reports: Record<string, ForeignFlag> = {
  ...refused('runs report to files on this machine', 'use --tensorboard-dir; "wandb sync DIR" uploads it', {
    'wandb-project': 'Weights & Biases',
    'wandb-exp-name': 'Weights & Biases',
    'wandb-save-dir': 'Weights & Biases',
    'wandb-entity': 'Weights & Biases',
    'enable-one-logger': 'reports to NVIDIA',
    'one-logger-project': 'reports to NVIDIA',
    'one-logger-run-name': 'reports to NVIDIA',
  }),
  ...idle('nothing is ever reported to anybody', {
    'no-one-logger': 'no reports to NVIDIA',
  }),
  ...idle('every step reports throughput, time, memory and the gradient norm', {
    'log-throughput': 'throughput in the log',
    'log-timers-to-tensorboard': 'times in TensorBoard',
    'log-memory-to-tensorboard': 'memory in TensorBoard',
    'log-loss-scale-to-tensorboard': 'the loss scale in TensorBoard',
    'no-log-loss-scale-to-tensorboard': 'no loss scale in TensorBoard',
    'log-validation-ppl-to-tensorboard': 'perplexity in TensorBoard',
    'log-batch-size-to-tensorboard': 'the batch size in TensorBoard',
    'no-log-learnig-rate-to-tensorboard': 'no learning rate in TensorBoard',
    'log-world-size-to-tensorboard': 'the number of processes in TensorBoard',
    'log-progress': 'progress in a file',
    'no-barrier-with-level-1-timing': 'barriers around times',
  }),
  ...idleSetting('every step reports the same', {
    'timing-log-level': 'how many times are measured',
    'timing-log-option': 'how times are reported',
    'tensorboard-log-interval': 'steps between two points in TensorBoard (1 here)',
    'tensorboard-queue-size': 'buffering of TensorBoard events',
    'logging-level': 'how much is logged',
  }),
  ...refused('it is not measured', 'see --metrics-jsonl for what is', {
    'log-params-norm': 'the norm of the weights',
    'log-num-zeros-in-grad': 'zeros in gradients',
    'log-energy': 'energy',
    'log-straggler': 'slow processes',
    'log-max-attention-logit': 'the largest attention score',
    'check-for-spiky-loss': 'a check for jumps of the loss',
    'check-for-large-grads': 'a check for large gradients',
  }),
  ...refused('profiles are taken from outside', 'use node --cpu-prof, perf or nsys', {
    profile: 'a profile by nsys',
    'use-pytorch-profiler': "PyTorch's profiler",
    'profile-step-start': 'a profile of some steps',
    'profile-step-end': 'a profile of some steps',
    'profile-ranks': 'a profile of some ranks',
    'record-memory-history': 'a record of allocations',
  }),
  ...refused('a failed run ends and is started again from its newest whole checkpoint', 'leave it out', {
    'rerun-mode': 'running a step again when it looks wrong',
    'error-injection-rate': 'errors on purpose',
    'error-injection-type': 'errors on purpose',
    'enable-ft-package': 'fault tolerance by another package',
    'inprocess-restart': 'restarting inside the process',
    replication: 'replicated checkpoints',
    'enable-gloo-process-groups': 'additional process groups',
    'disable-gloo-process-groups': 'fewer process groups',
  }),
  'yaml-cfg': only([], 'a file of settings', 'the flag has another name', 'use --config FILE'),
};

/** What is known of Megatron-LM's flags that are not in the schema, by name. */
export const foreignFlagTable: Readonly<Record<string, ForeignFlag>> = {
  ...architecture,
  ...experts,
  ...precision,
  ...implementation,
  ...parallelism,
  ...recipe,
  ...data,
  ...checkpoints,
  ...reports,
};
