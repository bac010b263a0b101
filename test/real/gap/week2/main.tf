# Week 1 with newer versions of eks, vpc, s3-bucket and naming. eks calls the same version of kms.
module "subnets" {
  source  = "cloudposse/dynamic-subnets/aws" # calls label and utils, which calls label
  version = "~> 3.0"
}
module "label" {
  source  = "cloudposse/label/null"
  version = "0.24.1"
}
module "eks" {
  source  = "terraform-aws-modules/eks/aws" # calls kms
  version = "~> 21.19.0"
}
module "nodes" {
  source  = "terraform-aws-modules/eks/aws//modules/eks-managed-node-group"
  version = "~> 21.19.0"
}
module "kms" {
  source  = "terraform-aws-modules/kms/aws"
  version = "~> 4.1.0"
}
module "vpc" {
  source  = "terraform-aws-modules/vpc/aws"
  version = "~> 6.6.0"
}
module "vpc_before" {
  source  = "terraform-aws-modules/vpc/aws"
  version = "< 6.0.0"
}
module "endpoints" {
  source  = "terraform-aws-modules/vpc/aws//modules/vpc-endpoints"
  version = "~> 6.6.0"
}
module "alb" {
  source  = "terraform-aws-modules/alb/aws"
  version = "~> 10.0"
}
module "ecs" {
  source  = "terraform-aws-modules/ecs/aws"
  version = "~> 7.0"
}
module "role" {
  source  = "terraform-aws-modules/iam/aws//modules/iam-role"
  version = ">= 6.2.0, != 6.3.0"
}
module "function" {
  source  = "terraform-aws-modules/lambda/aws"
  version = "~> 8.0"
}
module "bucket" {
  source  = "terraform-aws-modules/s3-bucket/aws"
  version = "~> 5.15.0"
}
module "group" {
  source  = "terraform-aws-modules/security-group/aws//modules/https-443"
  version = "~> 5.3"
}
module "cluster" {
  source  = "terraform-google-modules/kubernetes-engine/google"
  version = "~> 44.0"
}
module "services" {
  source  = "terraform-google-modules/kubernetes-engine/google//modules/services" # calls project-factory
  version = "~> 44.0"
}
module "network" {
  source  = "terraform-google-modules/network/google"
  version = "~> 18.0"
}
module "storage" {
  source  = "terraform-ibm-modules/cos/ibm" # calls cbr
  version = "~> 10.6.0"
}
module "zone" {
  source  = "terraform-ibm-modules/landing-zone-vpc/ibm"
  version = "~> 8.4.0"
}
module "aks" {
  source  = "Azure/aks/azurerm"
  version = "~> 11.0"
}
module "names" {
  source  = "Azure/naming/azurerm"
  version = "0.4.3"
}
module "account" {
  source  = "Azure/avm-res-storage-storageaccount/azurerm"
  version = "0.6.6"
}
