// NetworkPolicies of a node, decided by the engine of kube-network-policies.
//
// That project's own program sends packets to the engine by nftables' expression `queue`, which not every kernel has. This program reads the
// same kernel queue, and the rules that fill the queue are made by iptables (tests/cluster/kubelet.py).
package main

import (
	"context"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	nfqueue "github.com/florianl/go-nfqueue/v2"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/kube-network-policies/pkg/api"
	"sigs.k8s.io/kube-network-policies/pkg/network"
	"sigs.k8s.io/kube-network-policies/pkg/networkpolicy"
	"sigs.k8s.io/kube-network-policies/pkg/podinfo"
)

const queue = 100

func main() {
	kubeconfig, node := os.Args[1], os.Args[2]
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	engine, err := newEngine(ctx, kubeconfig, node)
	if err != nil {
		log.Fatal(err)
	}
	if err := decide(ctx, engine); err != nil {
		log.Fatal(err)
	}
	log.Print("policies are in force")
	<-ctx.Done()
}

func newEngine(ctx context.Context, kubeconfig, node string) (*networkpolicy.PolicyEngine, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	namespaces, pods := factory.Core().V1().Namespaces(), factory.Core().V1().Pods()
	policies := factory.Networking().V1().NetworkPolicies()
	resolver, err := podinfo.NewInformerResolver(pods.Informer())
	if err != nil {
		return nil, err
	}
	provider := podinfo.NewInformerProvider(pods, namespaces, nil, []podinfo.IPResolver{resolver})
	standard := networkpolicy.NewStandardNetworkPolicy(node, namespaces, pods, policies)
	engine := networkpolicy.NewPolicyEngine(provider, []api.PolicyEvaluator{standard})
	engine.SetDataplaneSyncCallbacks(func() {})
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	return engine, nil
}

// decide accepts or drops the first packet of each connection.
func decide(ctx context.Context, engine *networkpolicy.PolicyEngine) error {
	packets, err := nfqueue.Open(&nfqueue.Config{
		NfQueue:      queue,
		Flags:        nfqueue.NfQaCfgFlagGSO,
		MaxPacketLen: 128,
		MaxQueueLen:  1024,
		Copymode:     nfqueue.NfQnlCopyPacket,
		WriteTimeout: 100 * time.Millisecond,
	})
	if err != nil {
		return err
	}
	context.AfterFunc(ctx, func() { packets.Close() })
	return packets.RegisterWithErrorFunc(ctx, func(a nfqueue.Attribute) int {
		verdict := nfqueue.NfDrop
		packet, err := network.ParsePacket(*a.Payload)
		if err != nil {
			log.Printf("a packet that is not understood is dropped: %v", err)
		} else if allowed, err := engine.EvaluatePacket(ctx, &packet); err == nil && allowed {
			verdict = nfqueue.NfAccept
		} else {
			log.Printf("refused: %s", packet.String())
		}
		if err := packets.SetVerdict(*a.PacketID, verdict); err != nil {
			log.Printf("no verdict for a packet: %v", err)
		}
		return 0
	}, func(err error) int {
		log.Printf("no packet: %v", err)
		return 0
	})
}
