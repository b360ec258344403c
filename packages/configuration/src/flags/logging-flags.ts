import { count, counts, text, toggle } from './flag-kinds.js';

/** The flags for tracking services, for pretraining and fine-tuning. */
export const trackingFlags = {
  'wandb-project': text(
    'The project of Weights & Biases that metrics are sent to, with the key in WANDB_API_KEY; also WANDB_BASE_URL, and WANDB_MODE=offline (or dryrun), which keeps metrics for mtl runs send.',
    { placeholder: 'NAME' },
  ),
  'wandb-exp-name': text('The name of the run there.', {
    placeholder: 'NAME',
    defaultText: 'the name of the --save directory',
  }),
  'wandb-entity': text('The user or team of that project.', {
    placeholder: 'NAME',
    defaultText: 'the account of the key',
  }),
  'mlflow-tracking-uri': text(
    'The MLflow server that metrics are sent to, such as http://host:5000; it is asked with MLFLOW_TRACKING_TOKEN, or _USERNAME and _PASSWORD, where these are set.',
    { placeholder: 'URL' },
  ),
  'mlflow-experiment-name': text('The experiment there; made when missing.', {
    placeholder: 'NAME',
    default: 'Default',
  }),
  'mlflow-run-name': text('The name of the run there.', {
    placeholder: 'NAME',
    defaultText: 'the name of the --save directory',
  }),
};

/** The flags for reports during training. */
export const loggingFlags = {
  'log-interval': count('Steps per console line; on a terminal one line of progress takes their place.', {
    default: 100,
  }),
  'log-max-attention-logit': toggle(
    'Reports the highest attention score of all heads at each --log-interval. On CPUs.',
  ),
  verbose: toggle('Prints the configuration first, and the console lines on a terminal, too.'),
  'no-eval-samples': toggle(
    'No sample of the model at each evaluation; they are short, and go to samples.jsonl in the --save directory.',
  ),
  'tensorboard-dir': text('Folder for TensorBoard event files.', { placeholder: 'DIR' }),
  'metrics-jsonl': text(
    'A copy of the metrics.jsonl that every run writes in its --save directory: one JSON object per step and per evaluation.',
    { placeholder: 'FILE' },
  ),
  ...trackingFlags,
  'compare-with-plan': toggle(
    'Prints how the steps compare with what mtl plan predicts on the profile of this machine (mtl calibrate), and what is slower.',
  ),
  'profile-steps': counts(
    'Steps to trace: what every rank did, and when. On CPUs also prints where the time of the first rank went: each operation with its share of what this machine can reach.',
    'FIRST LAST',
  ),
  'profile-trace': text(
    'That trace, for mtl watch, which finds it in the --save directory, ui.perfetto.dev and mtl schedule --compare.',
    { placeholder: 'FILE', default: 'trace.json', defaultText: 'trace.json in the --save directory' },
  ),
};
