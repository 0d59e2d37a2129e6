//! When images are pulled.

weft_plan::choice! {
    /// The pull policies of Kubernetes.
    #[derive(Default)]
    pub enum PullPolicy("a pull policy") {
        /// At every start of a container.
        Always,
        /// When the node does not have the image.
        #[default]
        IfNotPresent,
        /// Never: the image must be on the node.
        Never,
    }
}
