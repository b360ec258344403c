import {
  count,
  fraction,
  naturalNumber,
  openToggle,
  positiveNumber,
  text,
  texts,
  toggle,
} from './flag-kinds.js';

/** The flags of what is loaded before training and saved by it. */
export const checkpointFlags = {
  save: text('Folder to save checkpoints to, at the end and on SIGTERM, SIGINT or SIGHUP.', {
    placeholder: 'DIR',
    defaultText:
      'the folder of --load; without --load, or with --finetune or --ckpt-step, a new one in runs/',
  }),
  'save-interval': count('Steps between two checkpoints; needs --save.'),
  'async-save': toggle(
    'Trains on while a checkpoint is written, from a copy of weights and moments in host memory; needs --save-interval.',
  ),
  'keep-last': count('Deletes all but this many newest checkpoints of this run, over all its jobs.', {
    defaultText: 'keep all',
  }),
  load: text(
    'Folder of checkpoints to resume from: its newest whole one, whose flags hold where no other is given. With --finetune only those of its model and its tokenizer.',
    { placeholder: 'DIR' },
  ),
  'ckpt-step': naturalNumber('Resumes from the checkpoint of this step instead of the newest.'),
  'no-load-optim': toggle('Starts with a fresh optimizer.'),
  'no-load-rng': toggle('Starts with a fresh random state.'),
  'override-opt-param-scheduler': toggle(
    'Where learning rate, its schedule or weight decay differ from the checkpoint, uses those of the command line.',
  ),
  'use-checkpoint-opt-param-scheduler': toggle('Where they differ, uses those of the checkpoint.'),
  finetune: toggle('Loads weights only, and starts at step 0 of the data.'),
  'use-checkpoint-args': toggle(
    'Takes model and tokenizer from the checkpoint of --load where no flag gives another value, as --load always does.',
  ),
  'moe-use-upcycling': openToggle(
    'Makes each expert a copy of the feed-forward layer of the dense model of --load-hf, or of --load with --finetune; routers are new.',
  ),
  'load-hf': text(
    'Folder of a Hugging Face GPT-2, Llama, Mistral, Qwen2, Qwen3, Mixtral, Qwen2-MoE, Qwen3-MoE, OLMoE or BERT (config.json, model.safetensors) to take weights, model sizes and tokenizer from.',
    {
      placeholder: 'DIR',
    },
  ),
  'save-hf': text(
    'Folder to write a Hugging Face model to when training ends, with adapters merged into its weights.',
    {
      placeholder: 'DIR',
    },
  ),
  'load-lora': text(
    'Folder of adapters that PEFT or --save-lora wrote (adapter_config.json, adapter_model.safetensors) to train on; needs --load-hf, or --load with --finetune.',
    { placeholder: 'DIR' },
  ),
  'save-lora': text('Folder to write the adapters to when training ends, as PEFT loads them.', {
    placeholder: 'DIR',
  }),
};

/** Low-rank adapters (LoRA), which are trained in place of the model's own weights. */
export const loraFlags = {
  'lora-rank': count(
    'Trains low-rank adapters of this rank (LoRA) instead of the weights that --load-hf or --load names, which stay as they are.',
  ),
  'lora-alpha': positiveNumber('What adapters add is scaled by this over --lora-rank.', {
    defaultText: '--lora-rank',
  }),
  'use-rslora': toggle('Scales what adapters add by --lora-alpha over the square root of --lora-rank.'),
  'lora-dropout': fraction(
    'Probability of dropping a feature of an adapted layer, before the adapter; not of experts.',
    { default: 0 },
  ),
  'lora-targets': texts(
    'Linear layers that get adapters, by their names in the transformers library (q_proj, c_attn, experts.down_proj ...), or all-linear.',
    { defaultText: 'all-linear' },
  ),
};
