/**
 * Megatron-LM's flags that are not in the schema, by topic. A line without indentation is a reason. After the
 * reason comes the remedy if the flags are rejected, or `no effect` if they are accepted because ignoring
 * them changes nothing. The indented lines below a reason are the flags to which it applies, with their
 * function in Megatron-LM:
 *
 * - `flag-*` means all flags with this prefix; the longest matching prefix counts.
 * - `flag=` takes one value, `flag=...` any number of values. An accepted flag without `=` is a switch.
 * - `flag=a/b` of a rejected flag is accepted with the values a and b, which describe what this project does.
 *
 * `judgeMegatronFlag` uses the table.
 */
export const unsupportedFlags = `
# Blocks and models

the default of --position-embedding-type is learned_absolute | pass --position-embedding-type rope, yarn or none, or leave it out
  no-position-embedding | a model without learned position embeddings
--position-embedding-type says it | leave it out, or pass --position-embedding-type yarn
  rope-type=rope | the kind of rotary positions of latent attention
feed-forward layers have GELU, SwiGLU, quick GEGLU or squared ReLU | leave it out, or pass --swiglu, --quick-geglu or --squared-relu
  onnx-safe | a variant of GELU for ONNX
positions are learned embeddings, rope, yarn or none | leave it out; choose one with --position-embedding-type
  mrope-section | rotary positions of several kinds
  relative-attention-num-buckets relative-attention-max-distance | relative positions
the weights of norms have no weight decay, so they train the same when stored as they are | no effect
  apply-layernorm-1p | weights of norms stored less 1
residual connections start at the input of a sublayer, before its norm | leave it out
  apply-residual-connection-post-layernorm | residual connections taken after the layer norm
queries and keys have learned norms or none | leave it out, or use --qk-layernorm
  qk-l2-norm | normalised queries and keys
the residual stream has the dtype of the model | leave it out
  fp32-residual-connection | a residual stream in fp32
every layer has softmax attention | leave it out
  attention-output-gate | gated attention
  linear-attention-type linear-* | linear attention
  experimental-attention-variant | variants of attention
learning rates and initial weights do not depend on the width | leave it out
  mup use-mup | maximal update parametrisation
initial weights are normal, embeddings included | use --init-method-std
  embedding-init-method-std | another deviation for embeddings
  init-method-xavier-uniform | Xavier initialisation
every layer has attention and a feed-forward network of the same shape | leave it out
  heterogeneous-layers-config-path | layers of different shapes
  hybrid-layer-pattern hybrid-override-pattern hybrid-attention-ratio hybrid-mlp-ratio | hybrid models
  is-hybrid-model | hybrid models
  mamba-state-dim mamba-head-dim mamba-num-groups mamba-num-heads | state-space layers
flags describe the blocks | leave it out
  spec | another specification of blocks
a model has one stack of layers | use --num-layers
  encoder-num-layers decoder-num-layers | encoder-decoder models
a model has one stack of layers | use --seq-length
  encoder-seq-length decoder-seq-length | encoder-decoder models
heads have queries, keys and values of one size | leave it out
  multi-latent-attention q-lora-rank kv-lora-rank qk-head-dim qk-pos-emb-head-dim v-head-dim | multi-head latent attention
  cache-mla-latents | multi-head latent attention
the model predicts one token at a time | leave it out
  mtp-num-layers mtp-loss-scaling-factor | prediction of several tokens
models are GPTs, including the Llama family, and BERTs | leave it out
  mamba-* disable-mamba-* | state-space layers
  hybrid-* | hybrid models
  heterogeneous-* | layers of different shapes
  retro-* retriever-* indexer-* ict-* biencoder-* | retrieval
  vision-* dino-* swin-* | images
models are trained at full size | leave it out
  modelopt-* | model compression

# Experts

the experts of a layer are always computed together | no effect
  moe-grouped-gemm | grouped GEMMs of experts
  moe-use-legacy-grouped-gemm | grouped GEMMs of experts, in old versions
the kernels here are fused where it pays, and the fused ones have the same results | no effect
  moe-permute-fusion | fused permutation of tokens
  moe-router-fusion | fused routing
shared experts always compute while tokens are sent | no effect
  moe-shared-expert-overlap | shared experts while tokens are sent
rows that would pad an expert have weight 0, and change nothing | no effect
  moe-pad-expert-input-to-capacity | experts of padded inputs
metrics are for the whole model | no effect
  moe-per-layer-logging | metrics of each layer
what the router computes is always in float32 | leave it out, or pass fp32
  moe-router-dtype=fp32 | the precision of routing
the router sees what the experts see | leave it out
  moe-input-jitter-eps | noise in the input of the router
tokens go where the router says | leave it out; --moe-aux-loss-coeff balances experts
  moe-router-force-load-balancing | experts chosen by chance, for measurements of speed
  moe-enable-routing-replay | experts chosen as in another run
weights of experts multiply values inside the experts | leave it out
  moe-apply-probs-on-input | weights that multiply the inputs of experts
experts have the width of the model as input and output | leave it out
  moe-latent-size | experts of a narrower input
gates and values of an expert are two blocks of rows | leave it out
  moe-mlp-glu-interleave-size | interleaved rows of experts
with --moe-use-upcycling each expert is a copy of a whole layer | leave it out, or pass 1
  moe-upcycling-granularity=1 | experts that are parts of dense layers
the flag has another name | use --recompute-granularity full
  moe-layer-recompute | recomputation of experts
groups of experts are not groups of processes | use --moe-router-num-groups and --moe-router-group-topk
  moe-router-topk-limited-devices | tokens, each for few processes
matmuls are computed in fp32, bf16 or fp16 | use --bf16
  moe-router-padding-for-fp8 moe-router-padding-for-quantization | rows that pad experts for FP8
experts are made new; making them from dense layers is not built yet | leave it out
  moe-upcycling-* | experts made from dense layers

# Precision

master weights are fp32, or bf16 with remainders, which are the same values | use --use-precision-aware-optimizer with --store-param-remainders
  main-params-dtype=fp32 | the precision of master weights
matmuls are computed in fp32, bf16 or fp16 | use --bf16
  fp8 fp8-format fp8-recipe fp8-hybrid fp8-e4m3 fp8-margin fp8-interval fp8-amax-history-len | training in FP8
  fp8-amax-compute-algo first-last-layers-bf16 num-layers-at-start-in-bf16 num-layers-at-end-in-bf16 | training in FP8
  no-fp8-wgrad fp8-* reuse-grad-buf-for-mxfp8* keep-fp8-* | training in FP8
  fp8-param fp8-param-gather | weights in FP8
  fp4-format fp4-recipe fp4-* | training in FP4
  fp4-param | weights in FP4
  kitchen-* | quantised training
softmax and loss are always computed in fp32 | leave it out
  fp16-lm-cross-entropy | a loss in fp16
  no-attention-softmax-in-fp32 | softmax in lower precision
gradients are reduced in the precision of --main-grads-dtype | no effect
  grad-reduce-in-bf16 | reduction of gradients in bf16
the gradients of a micro-batch are always summed in fp32, and main gradients have --main-grads-dtype | no effect
  accumulate-allreduce-grads-in-fp32 ddp-reduce-scatter-with-fp32-accumulation | sums of gradients in fp32
  gradient-accumulation-fusion | fused sums of gradients
  no-gradient-accumulation-fusion | unfused sums of gradients
  fp32-allreduce | reduction of gradients in fp32, in old versions
matmuls always sum in fp32 | no effect
  disable-bf16-reduced-precision-matmul | sums of matmuls in fp32
scores are computed in fp32, where scaling them and back changes nothing | no effect
  apply-query-key-layer-scaling | scores scaled by the number of the layer, and back
  no-query-key-layer-scaling | scores without scaling by the number of the layer
softmax is always computed in fp32 | no effect
  attention-softmax-in-fp32 | softmax in fp32

# Kernels and memory

attention never stores its S x S scores, whatever the shape | no effect
  use-flash-attn | FlashAttention
  use-flash-attn-v3 | FlashAttention 3
  use-fused-attn | fused attention
the kernels here are fused where it pays, and the fused ones have the same results | no effect
  no-masked-softmax-fusion | unfused softmax
  no-bias-gelu-fusion | unfused bias and GELU
  no-bias-swiglu-fusion | unfused SwiGLU
  no-bias-dropout-fusion | unfused bias and dropout
  no-rope-fusion | unfused rotary positions
  no-persist-layer-norm persist-layer-norm | another layer norm kernel
  cross-entropy-loss-fusion | a fused loss
  use-fused-weighted-squared-relu | fused squared ReLU
  bias-dropout-fusion | fused bias and dropout
  bias-gelu-fusion | fused bias and GELU
  masked-softmax-fusion | fused softmax
  scaled-masked-softmax-fusion scaled-upper-triang-masked-softmax-fusion | fused softmax, in old versions
  rope-fusion | fused rotary positions
the schedule and the layers decide what overlaps | no effect
  async-tensor-model-parallel-allreduce | reductions that overlap
  no-async-tensor-model-parallel-allreduce | reductions that do not overlap
the kernels here are the same for every choice of it | no effect
  use-te-activation-func | another activation kernel
  flash-decode | a kernel of generation
  attention-backend= | the kernel of attention
  transformer-impl= | the implementation of blocks
  cross-entropy-fusion-impl= | the kernel of the loss
no part is experimental | no effect
  enable-experimental | experimental parts
there is one implementation of the models | no effect
  use-mcore-models deprecated-use-mcore-models | Megatron Core's models
  use-legacy-models | the models before Megatron Core
training runs are always bitwise repeatable | no effect
  deterministic-mode | bitwise repeatable training
initial weights depend only on --seed and the position of each value | no effect
  use-cpu-initialization | initial weights made on the CPU
  no-initialization | skipped initialisation
passes are launched as CUDA graphs with --cuda-graphs, and whole ones | no effect
  cuda-graph-impl= cuda-graph-scope= cuda-graph-warmup-steps= | CUDA graphs
passes are launched as CUDA graphs with --cuda-graphs | no effect
  enable-cuda-graph external-cuda-graph | CUDA graphs
random numbers depend only on --seed and the position of each value, in CUDA graphs too | no effect
  te-rng-tracker use-te-rng-tracker | a random state for CUDA graphs
no Python runs, so that no Python objects are collected | no effect
  manual-gc no-manual-gc-eval manual-gc-interval= | garbage collection by hand
the communication library registers buffers itself | no effect
  use-nccl-ub disable-symmetric-registration | registered communication buffers
gradients and parameters stay on the device | no effect
  no-pin-cpu-grads | pinned memory of gradients
  no-pin-cpu-params | pinned memory of parameters
a rank makes the initial weights of its own shards alone | no effect
  init-model-with-meta-device | memory during initialisation
memory comes from one caching allocator | no effect
  deallocate-pipeline-outputs | freed outputs of stages
  clone-scatter-output-in-embedding no-clone-scatter-output-in-embedding | memory of the embedding
  empty-unused-memory-level= | returning memory to the device
activations stay on the device | use --recompute-granularity to save memory
  cpu-offloading cpu-offloading-num-layers fine-grained-activation-offloading | activations moved to the host
the flag has another name | use --recompute-granularity full
  checkpoint-activations | recomputation of layers
the flag has another name | use --recompute-granularity
  activations-checkpoint-granularity | what is recomputed
the flag has another name | use --recompute-method
  activations-checkpoint-method | how layers to recompute are chosen
the flag has another name | use --recompute-num-layers
  activations-checkpoint-num-layers checkpoint-num-layers | how many layers are recomputed

# Processes and their communication

process groups are made when a training run joins its job | no effect
  lazy-mpu-init= | late set-up of process groups
the schedule and the layers decide what overlaps | no effect
  high-priority-stream-groups=... | priorities of communication
  no-overlap-p2p-communication | communication of stages that does not overlap
  overlap-p2p-communication-warmup-flush | overlapped communication of stages
  delay-wgrad-compute | the time of weight gradients
  defer-embedding-wgrad-compute | the time of the weight gradient of the output layer
  scatter-gather-tensors-in-pipeline | boundaries sent in parts
  no-scatter-gather-tensors-in-pipeline | boundaries sent whole
  overlap-p2p-communication | communication of stages that overlaps
  align-grad-reduce no-align-grad-reduce | the time of reductions
  align-param-gather no-align-param-gather | the time of gathers
  use-ring-exchange-p2p batch-p2p-communication | communication of stages
gradients are summed: the loss is divided by the tokens of the global batch before | no effect
  no-gradient-reduce-div-fusion | where gradients are averaged
gradients are always in flat buffers, in buckets of one size | no effect
  use-contiguous-buffers-in-local-ddp use-contiguous-buffers-in-ddp | one buffer of gradients, in old versions
  no-contiguous-buffers-in-local-ddp | no buffer of gradients, in old versions
  ddp-pad-buckets-for-high-nccl-busbw ddp-bucket-size= | the size of gradient buckets
  ddp-num-buckets= | the number of gradient buckets
the communication library decides how it sends | no effect
  nccl-ub | registered communication buffers
  use-sharp sharp-enabled-group= | reductions inside the network
  symmetric-ar-type= | the kind of all-reduce
  suggested-communication-unit-size= | the size of messages
NCCL reads its settings from environment variables | no effect
  nccl-communicator-config-path= | settings of NCCL
the schedule decides when weight gradients are computed | no effect
  wgrad-deferral-limit= | the time of the weight gradient of the output layer
--distributed-timeout-minutes holds for the whole run | no effect
  distributed-timeout-seconds-after-init= | another time-out
all ranks communicate through --distributed-backend | no effect
  pipeline-model-parallel-comm-backend= | the library that stages talk through
a step waits for the device only where it needs a number | no effect
  train-sync-interval= | waits for the device
the launcher's environment variables give every process its number | no effect
  local-rank= | this process's number on its host
every gradient is checked in each step | no effect
  check-for-nan-in-loss-and-grad | a check for NaN
  no-check-for-nan-in-loss-and-grad | no check for NaN

# Forms of parallelism

there is no encoder | leave it out
  encoder-tensor-model-parallel-size | tensor parallelism of an encoder
  pipeline-model-parallel-split-rank | encoder and decoder on different stages
  encoder-pipeline-model-parallel-size | pipeline stages of an encoder
the schedule and the layers decide what overlaps | no effect
  tp-comm-overlap disable-tp-comm-overlap-ag disable-tp-comm-overlap-rs disable-tp-comm-bulk-dgrad | overlapped tensor-parallel communication
  disable-tp-comm-bulk-wgrad tp-comm-*=... disable-tp-comm-* | overlapped tensor-parallel communication
  overlap-param-gather-with-optimizer-step | overlapped gathers
tensor-parallel ranks divide activations along the sequence | use --sequence-parallel
  distribute-saved-activations | activations split over ranks
all samples have the same processes | use --context-parallel-size
  hybrid-context-parallel max-seqlen-per-dp-cp-rank | a number of processes for each sample by its length
the number of chunks follows from their size | use --num-layers-per-virtual-pipeline-stage
  virtual-pipeline-model-parallel-size=1 | chunks per stage
embedding and loss count with their actual cost, not as one layer each | use --pipeline-model-parallel-layout balanced
  account-for-embedding-in-pipeline-split account-for-loss-in-pipeline-split | stages of different sizes
  standalone-embedding-stage | a stage for the embedding alone, in old versions
there is one implementation | leave it out
  ddp-impl=local/torch | the implementation of data parallelism, in old versions
every instance of --num-distributed-optimizer-instances has all states | leave it out
  outer-dp-sharding-strategy=no_shard | states that instances divide once more
every instance of --num-distributed-optimizer-instances has all states | use a single instance, whose ranks divide all states
  enable-full-sharding-in-hsdp | states that instances divide once more
two layers are always in memory: one computes while the next one is gathered | no effect
  fsdp-double-buffer | buffers that gathers of layers take in turn
a layer stays after its forward pass until two other layers need its memory | no effect
  torch-fsdp2-no-reshard-after-forward | layers that stay in memory until their backward pass
values are gathered in the model's dtype, two layers at a time, and gradients are summed in --main-grads-dtype | use --use-megatron-fsdp
  fsdp-* megatron-fsdp-* torch-fsdp2-* | memory and dtypes of fully sharded parameters
DeepSpeed's stages have names | use --use-distributed-optimizer for stage 1, or --use-megatron-fsdp for stage 3
  zero-stage | the stages of DeepSpeed's ZeRO (the distributed optimizer is the first)
optimizer state stays on the device | use --use-distributed-optimizer to divide it over ranks
  optimizer-cpu-offload optimizer-offload-fraction offload-optimizer-states | optimizer state on the host
  overlap-cpu-optimizer-d2h-h2d use-torch-optimizer-for-cpu-offload cpu-optimizer | optimizer state on the host
ranks that share no part of the model are data-parallel by default | no effect
  use-distributed-data-parallel | data parallelism
the distributed optimizer divides the state of Muon evenly | use --use-distributed-optimizer
  use-layer-wise-distributed-optimizer | a distributed optimizer of whole matrices
every global batch is trained with exactly the size that is asked for | make --global-batch-size a multiple of --micro-batch-size times the data-parallel size
  decrease-batch-size-if-needed | a global batch made smaller until it divides
every data-parallel rank always reads its own samples alone | no effect
  data-sharding= no-data-sharding | who reads which sample
weights and dropout follow from --seed and the global coordinates alone | leave it out
  data-parallel-random-init | other initial weights on each rank
it is not measured | see --metrics-jsonl for what is
  check-weight-hash-across-dp-replicas-interval | equality of replicas
tokens go to the processes of their experts by the collectives of --distributed-backend | use --moe-token-dispatcher-type alltoall
  moe-flex-dispatcher-backend moe-enable-deepep moe-deepep-* moe-hybridep-* moe-ncclep-* moe-flex-* | the flex dispatcher of tokens
micro-batches are computed one after the other | leave it out
  overlap-moe-expert-parallel-comm | tokens sent while another micro-batch is computed
experts have a flag of their own | use --expert-tensor-parallel-size
  moe-extended-tp | experts over tensor-parallel ranks
neighbouring ranks are always tensor-parallel, then data-parallel, and the model is the same | no effect
  use-tp-pp-dp-mapping | the order of ranks
--pipeline-model-parallel-size is the number of stages | no effect
  no-pipeline-parallel* | DeepSpeed without pipelines
training runs are distributed by flags of their own | use --use-distributed-optimizer; --tensor-model-parallel-size and --pipeline-model-parallel-size split the model
  deepspeed* | DeepSpeed's engine

# Recipes

weight decay is constant | use --weight-decay
  weight-decay-incr-style=constant | growth of weight decay
  start-weight-decay end-weight-decay | weight decay that grows
the flag has another name | use --lr-warmup-fraction
  warmup= | warm-up, in old versions
it is AdamW | leave it out, or use --muon-scalar-optimizer adam
  muon-scalar-optimizer=adam | the optimizer of everything but matrices
samples follow the shuffled index of the dataset | leave it out
  dataloader-type=single | the order of samples
the flag has another name | use --lr-decay-iters
  lr-decay-iterations= | decay of the learning rate
norms and biases have no weight decay | leave it out
  apply-wd-to-qk-layernorm | weight decay of the norms of queries and keys
the output layer shares its learning rate with the word embedding | use --decoupled-lr
  head-lr-mult | another learning rate for the head
the optimizers are AdamW and Muon | leave it out, or choose with --optimizer
  sgd-momentum | momentum of SGD
queries, keys and values are split unless --muon-no-split-qkv is given | no effect
  muon-split-qkv | updates of queries, keys and values one by one
the global batch follows one ramp | use --rampup-batch-size
  step-batch-size-schedule | a global batch that grows in steps
the flag has another name | use --micro-batch-size
  batch-size | the batch per process, in old versions
a run trains, and evaluates --eval-iters batches now and then | use mtl eval, which evaluates a checkpoint without training
  skip-train | evaluation without training
  full-validation | evaluation on all validation data
  multiple-validation-sets | several validation sets
evaluation uses the batch sizes of training | leave it out; --eval-iters is the number of batches
  eval-micro-batch-size eval-global-batch-size | other batch sizes for evaluation
every --eval-interval steps are evaluated, from the first | use --eval-interval
  start-eval-at-iter | evaluation from some step on
a run trains and does not test itself | leave it out
  test-mode | a mode for tests
evaluation tasks have a command of their own | use mtl eval --task
  task | evaluation tasks
samples are the text of the dataset, in its order | leave it out
  fim-data fim-rate | fill-in-the-middle samples
the flags of this run decide, and what differs from the checkpoint is named | leave it out
  use-mp-args-from-checkpoint-args | the parallel sizes of the checkpoint (any layout reads it)
SIGTERM, SIGINT and SIGHUP always save and end the run | no effect
  exit-signal-handler exit-signal-handler-for-training | saving at SIGTERM
weights and dropout follow from --seed and the global coordinates alone | leave it out
  inference-rng-tracker | another random state
conversations have a flag of their own | use mtl sft, or --train-data FILE.jsonl
  sft | fine-tuning on conversations
it needs a model or loss that is not here | leave it out
  perform-rl-step | reinforcement learning
  kd-teacher-load kd-distill-cfg | distillation
  retro-project-dir retro-add-retriever bert-load titles-data-path evidence-data-path | retrieval
  block-data-path embedding-path query-in-block-prob use-one-sent-docs | retrieval
  img-h img-w patch-dim num-classes num-channels iter-per-epoch classes-fraction | images
  data-per-class-fraction mask-type mask-factor | images
models learn from text only, by predicting its tokens | leave it out
  rl-* grpo-* langrl-* | reinforcement learning
  kd-* | distillation

# Corpora and tokenizers

datasets are .bin and .idx files | prepare one with mtl data prepare
  data-impl=mmap/infer | the format of datasets, in old versions
it is always 0.005 | leave it out
  mid-level-dataset-surplus=0.005 | samples built beyond what a blend needs
all samples are used | use --train-iters or --split
  sample-rate=1/1.0 | a share of the samples
one --data-path is divided by --split | use --data-path and --split
  train-data-path | a dataset for training only
  valid-data-path | a dataset for validation only
  test-data-path | a dataset for tests only
  per-split-data-args-path | datasets by part
datasets are read from the file system | copy it there and name it with --data-path
  object-storage-cache-path | datasets in object stores
a checkpoint holds the position in the data | leave it out
  dataloader-save | the reader's state in files of its own
datasets are named by flags | use --data-path, on the command line or in --config FILE
  data-args-path | a file with --data-path
the tokenizer is described by its own files | use --tokenizer-type HuggingFaceTokenizer --tokenizer-model tokenizer.json
  tiktoken-pattern= | the pattern of a tiktoken tokenizer
  tiktoken-num-special-tokens tiktoken-special-tokens | a tiktoken tokenizer
  special-tokens tokenizer-special-tokens | special tokens of a tokenizer
  tokenizer-metadata | a description of a tokenizer
  tokenizer-name-or-path | a tokenizer by its name on a server, in other projects' versions
the padded vocabulary follows from the tokenizer | use --make-vocab-size-divisible-by
  padded-vocab-size | the size of the padded vocabulary
the tokenizer gives the token ids | add the tokens to the tokenizer's file
  vocab-extra-ids | more token ids
the chat template of the tokenizer decides how conversations are written | use --chat-template FILE
  tokenizer-prompt-format | prompts of a tokenizer
  sft-* | fine-tuning on conversations
gradients are summed: the loss is divided by the tokens of the global batch before | no effect
  ddp-average-in-collective | where gradients are averaged
the loss is always the mean over all tokens of the global batch | no effect
  calculate-per-token-loss | a mean over tokens
code that comes with a tokenizer is never run | no effect
  trust-remote-code | code that comes with a tokenizer
tokenizers have one implementation | no effect
  legacy-tokenizer | another implementation of tokenizers
padding is masked by its position, not by its token id | no effect
  allow-ambiguous-pad-tokens | padding that shares an id with another token
the tokenizer is what the flags name, or else the checkpoint's tokenizer | no effect
  no-use-tokenizer-model-from-checkpoint-args | the tokenizer of the flags instead of the checkpoint
  use-tokenizer-model-from-checkpoint-args | the tokenizer of the checkpoint, for where no flag names one
data is read ahead by what a step takes, not by a number of processes | no effect
  num-workers= | processes that read data
each index is built once and kept; the number of threads does not change it | no effect
  num-dataset-builder-threads= | threads that build indices
kernels compute the attention mask from positions; no mask is ever stored or read | no effect
  create-attention-mask-in-dataloader | an attention mask made where data is read
  no-create-attention-mask-in-dataloader | an attention mask made on the device
datasets are read from the file system, never from an object store | no effect
  s3-cache-path= enable-msc disable-msc | datasets in object stores
files are mapped or read as it suits | no effect
  mmap-bin-files | files that are mapped
  no-mmap-bin-files | files that are not mapped
  mmap-warmup | files that are read once before, in old versions

# Checkpoints

the flag has another name | use --save-interval
  persistent-save-interval | steps between two checkpoints
there is one format: safetensors with logical names, readable under any layout | no effect
  ckpt-format= dist-ckpt-format= | the format of checkpoints
  dist-ckpt-strictness= | how strictly checkpoints are read (always strictly)
  ckpt-fully-parallel-load-exchange-algo= | how checkpoints are read
  ckpt-assume-constant-structure-level= | how checkpoints are written
  auto-detect-ckpt-format | finding out the format
  dist-ckpt-save-pre-mcore-014 | an old format
  no-strict-fsdp-dtensor-load | how strictly checkpoints are read
checkpoints are written by all ranks, atomically, with checksums, and read under any layout | no effect
  use-dist-ckpt | distributed checkpoints
  ckpt-fully-parallel-save | checkpoints written by all ranks
  no-ckpt-fully-parallel-save | checkpoints written by some ranks
  ckpt-fully-parallel-load | checkpoints read by all ranks
  ckpt-assume-constant-structure | how checkpoints are written
  dist-ckpt-optim-fully-reshardable | optimizer state for any layout
  distrib-optim-fully-reshardable-mem-efficient | memory while saving
--async-save writes in the background | no effect
  use-persistent-ckpt-worker | the thread of --async-save
every checkpoint is kept, or with --keep-last the newest | use --keep-last
  save-retain-interval most-recent-k | which checkpoints to keep
weights to start from are a checkpoint like any other | use --load DIRECTORY --finetune
  pretrained-checkpoint | weights to start from
--load always reads the master weights | leave it out
  load-main-params-from-ckpt | master weights to start from
checkpoints are written at --save-interval, and each is complete | leave it out
  non-persistent-save-interval non-persistent-ckpt-type | temporary checkpoints
a checkpoint always holds what makes resuming bitwise | leave it out
  no-save-optim | checkpoints without the optimizer (--save-hf writes weights only)
  no-save-rng | checkpoints without the random state
what happens when --load finds nothing is not a setting | leave it out
  exit-on-missing-checkpoint | an error when there is nothing to load
checkpoints are converted by a command | use mtl convert, --load-hf or --save-hf
  ckpt-convert-format ckpt-convert-save ckpt-convert-update-legacy-dist-opt-format | conversion of checkpoints

# Reports and recovery

errors are injected by tests only | leave it out
  error-injection-rate=0 error-injection-type | injected errors
it is in run.json of the --save directory, and saved with every checkpoint | leave it out
  config-logger-dir= | files with the configuration
what is not sent yet is kept in the --save directory | no effect
  wandb-save-dir= | the folder for files of Weights & Biases
loss and gradient norm of every step are checked; --loss-spike-policy decides what follows | no effect
  check-for-spiky-loss | a check for jumps of the loss
  check-for-large-grads | a check for large gradients
slow ranks are found and named by default | no effect
  log-straggler disable-straggler-on-startup | slow processes
  straggler-*=... | how slow processes are found
reports go to files, Weights & Biases or MLflow | use --wandb-project or --mlflow-tracking-uri
  enable-one-logger one-logger-project one-logger-run-name one-logger-* app-tag-* | reports to NVIDIA
no report goes to NVIDIA | no effect
  no-one-logger | no reports to NVIDIA
metrics.jsonl in the --save directory has the progress of every step | no effect
  log-progress | progress in a file
run.json in the --save directory has the number of processes | no effect
  log-world-size-to-tensorboard | the number of processes in TensorBoard
times are measured without barriers | no effect
  barrier-with-level-1-timing no-barrier-with-level-1-timing | barriers around times
the log has one level, and --verbose | no effect
  logging-level= | how much is logged
every step reports throughput, time, memory and the gradient norm | no effect
  log-throughput | throughput in the log
  log-timers-to-tensorboard | times in TensorBoard
  log-memory-to-tensorboard | memory in TensorBoard
  log-loss-scale-to-tensorboard | the loss scale in TensorBoard
  no-log-loss-scale-to-tensorboard | no loss scale in TensorBoard
  log-validation-ppl-to-tensorboard | perplexity in TensorBoard
  log-batch-size-to-tensorboard | the batch size in TensorBoard
  no-log-learnig-rate-to-tensorboard no-log-learning-rate-to-tensorboard | no learning rate in TensorBoard
  log-learning-rate-to-tensorboard | the learning rate in TensorBoard
every step reports the same | no effect
  timing-log-level= | how many times are measured
  timing-log-option= | how times are reported
  tensorboard-log-interval= | steps between two points in TensorBoard (1 here)
  tensorboard-queue-size= | buffering of TensorBoard events
it is not measured | see --metrics-jsonl for what is
  log-params-norm | the norm of the weights
  log-num-zeros-in-grad | zeros in gradients
  log-energy | energy
profiles change no result; --profile-steps FIRST LAST records one | no effect
  profile | a profile by nsys
  use-pytorch-profiler | PyTorch's profiler
  profile-step-start= profile-step-end= | a profile of some steps
other profiles are taken from outside | use --profile-steps, node --cpu-prof, perf or nsys
  profile-ranks | a profile of some ranks
  record-memory-history memory-snapshot-path | a record of allocations
  run-workload-inspector-server | profiles on demand
checkpoints are written at --save-interval, each complete and once | leave it out
  replication replication-* | replicated checkpoints
  non-persistent-* | temporary checkpoints
process groups follow from the parallel sizes and --distributed-backend | no effect
  enable-gloo-process-groups | additional process groups
  disable-gloo-process-groups | fewer process groups
a failed run ends and is started again from its newest complete checkpoint | leave it out
  enable-ft-package calc-ft-timeouts ft-* | fault tolerance by another package
  inprocess-restart inprocess-* | restarting inside the process
  adlr-autoresume* | resuming on one cluster of NVIDIA
the flag has another name | use --config FILE
  yaml-cfg= | a file of settings
a training run does not serve requests | use mtl generate
  inference-* | generation
`;
