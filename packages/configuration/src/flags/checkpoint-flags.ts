import { count, naturalNumber, openToggle, text, toggle } from './flag-kinds.js';

const toSave = ['save', 'has nowhere to save to'] as const;
const toLoad = ['load', 'has nothing to load'] as const;

/** The flags for loading before training and for saving during training. */
export const checkpointFlags = {
  save: text('Folder to save checkpoints to, at the end and on SIGTERM, SIGINT or SIGHUP.', {
    placeholder: 'DIR',
    defaultText:
      'the folder of --load; without --load, or with --finetune or --ckpt-step, a new one in runs/',
  }),
  'save-interval': count('Steps between two checkpoints; needs --save.', { needs: toSave }),
  'async-save': toggle(
    'Trains on while a checkpoint is written, from a copy of weights and moments in host memory; needs --save-interval.',
    { needs: ['save-interval', 'would have nothing to write while a training runs'] },
  ),
  'keep-last': count('Deletes all but this many newest checkpoints of this run, over all its jobs.', {
    defaultText: 'keep all',
    needs: toSave,
  }),
  load: text(
    'Folder of checkpoints to resume from: its newest whole one, whose flags hold where no other is given. With --finetune only flags of its model and its tokenizer.',
    { placeholder: 'DIR', excludes: { 'load-hf': 'weights come from one place' } },
  ),
  'ckpt-step': naturalNumber('Resumes from the checkpoint of this step instead of the newest.', {
    needs: toLoad,
  }),
  'no-load-optim': toggle('Starts with a fresh optimizer.', { needs: toLoad }),
  'no-load-rng': toggle('Starts with a fresh random state.', { needs: toLoad }),
  'override-opt-param-scheduler': toggle(
    'Where learning rate, its schedule or weight decay differ from the checkpoint, uses the values of the command line.',
    {
      excludes: {
        'use-checkpoint-opt-param-scheduler':
          'the schedule comes from the command line or from the checkpoint',
      },
    },
  ),
  'use-checkpoint-opt-param-scheduler': toggle('Where they differ, uses the values of the checkpoint.'),
  finetune: toggle('Loads weights only, and starts at step 0 of the data.', { needs: toLoad }),
  'use-checkpoint-args': toggle(
    'Takes model and tokenizer from the checkpoint of --load where no flag gives another value, as --load always does.',
    { needs: toLoad },
  ),
  'moe-use-upcycling': openToggle(
    'Makes each expert a copy of the feed-forward layer of the dense model of --load-hf, or of --load with --finetune; routers are new.',
    {
      needs: ['num-experts', 'makes experts, and there are none'],
      excludes: { 'moe-shared-expert-intermediate-size': 'a dense model has no shared experts' },
    },
  ),
  'load-hf': text(
    'Folder of a Hugging Face GPT-2, Llama, Mistral, Qwen2, Qwen3, Mixtral, Qwen2-MoE, Qwen3-MoE, OLMoE or BERT (config.json, model.safetensors) to take weights, model sizes and tokenizer from, or org/name[@revision] on the Hub.',
    { placeholder: 'DIR' },
  ),
  'save-hf': text(
    'Folder to write a Hugging Face model to when training ends, with adapters merged into its weights.',
    { placeholder: 'DIR' },
  ),
};
