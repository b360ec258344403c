import { text } from './flag-kinds.js';

/** The services that metrics are sent to: of a pretraining and of a fine-tuning. */
export const trackingFlags = {
  'wandb-project': text(
    'The project of Weights & Biases that metrics are sent to, with the key in WANDB_API_KEY; also WANDB_BASE_URL, and WANDB_MODE=offline, which keeps metrics for mtl runs send.',
    { placeholder: 'NAME' },
  ),
  'wandb-exp-name': text('The name of the run there.', {
    placeholder: 'NAME',
    defaultText: 'that of the --save directory',
  }),
  'wandb-entity': text('The user or team of that project.', {
    placeholder: 'NAME',
    defaultText: 'that of the key',
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
    defaultText: 'that of the --save directory',
  }),
};
