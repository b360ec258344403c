export { deliveryText } from '../services/delivery.js';
export { type TrackingCredentials, trackingCredentials } from '../services/open-deliveries.js';
export { missingWandbKey } from '../services/send-kept-metrics.js';
