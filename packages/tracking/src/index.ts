export type { DeliveryResult, DeliveryTimes } from './services/delivery.js';
export { type SendKeptMetricsOptions, sendKeptMetrics } from './services/send-kept-metrics.js';
export type {
  MlflowSettings,
  TrackedRun,
  TrackingSettings,
  WandbSettings,
} from './services/tracking-settings.js';
export { type OpenTrackingOptions, TrackingSink } from './services/tracking-sink.js';
export { TensorboardWriter, type TensorboardWriterOptions } from './tensorboard/tensorboard-writer.js';
