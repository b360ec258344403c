import { count, fraction, positiveNumber, redescribed, text, texts, toggle } from '../flags/flag-kinds.js';

const adapters = ['lora-rank', 'has no adapters to belong to'] as const;

/** The flags of low-rank adapters (LoRA), which are trained in place of the model's own weights. */
export const adapterFlags = {
  'lora-rank': count(
    'Trains low-rank adapters of this rank (LoRA) instead of the weights that --load-hf or --load names, which stay as they are.',
  ),
  'lora-alpha': positiveNumber('What adapters add is scaled by this over --lora-rank.', {
    defaultText: '--lora-rank',
    needs: adapters,
  }),
  'use-rslora': toggle('Scales what adapters add by --lora-alpha over the square root of --lora-rank.', {
    needs: adapters,
  }),
  'lora-dropout': fraction(
    'Probability of dropping a feature of an adapted layer, before the adapter; not of experts.',
    { default: 0, needs: adapters },
  ),
  'lora-targets': texts(
    'Linear layers that get adapters, by their names in the transformers library (q_proj, c_attn, experts.down_proj ...), or all-linear.',
    { defaultText: 'all-linear', needs: adapters },
  ),
};

/** The flags for the directories from which adapters are loaded, and to which adapters are saved. */
export const adapterPlaceFlags = {
  'load-lora': text(
    'Folder of adapters that PEFT or --save-lora wrote (adapter_config.json, adapter_model.safetensors) to train on, or org/name[@revision] on the Hub; needs --load-hf, or --load with --finetune.',
    { placeholder: 'DIR' },
  ),
  'save-lora': text('Folder to write the adapters to when training ends, as PEFT loads them.', {
    placeholder: 'DIR',
    needs: adapters,
  }),
};

/** The group of LoRA flags in help and in the printed configuration. */
export const adapterFlagGroup = {
  title: 'LoRA',
  topic: 'lora',
  decidesLearning: true,
  flags: adapterFlags,
} as const;

/** The names of all adapter flags; only a GPT can have them. */
export const adapterFlagNames = [
  ...Object.keys(adapterPlaceFlags),
  ...Object.keys(adapterFlags),
] as readonly (keyof typeof adapterPlaceFlags | keyof typeof adapterFlags)[];

/** The flags that name adapters from which a run starts. */
export const adapterStartFlags = ['load-lora'] as const;

/** The flags that name directories to which a run writes adapters at its end. */
export const adapterExportFlags = ['save-lora'] as const;

/** The adapter flags for conversions. Their descriptions differ from the training flags. */
export const adapterFlagsOfConversion = {
  'load-lora': redescribed(adapterPlaceFlags['load-lora'], {
    description:
      'Adapters that PEFT or --save-lora wrote, or org/name[@revision] on the Hub, to merge into the model of --load-hf.',
  }),
  'save-lora': redescribed(adapterPlaceFlags['save-lora'], {
    description: 'The directory to write the adapters of a checkpoint to; new or empty.',
  }),
};

/**
 * The adapter flags for commands that use a trained model. Their descriptions differ from the training flags.
 */
export const adapterFlagsOfInference = {
  'load-lora': redescribed(adapterPlaceFlags['load-lora'], {
    description:
      'Low-rank adapters of that model, as PEFT or --save-lora wrote them, or org/name[@revision] on the Hub; merged when it is loaded.',
  }),
};
